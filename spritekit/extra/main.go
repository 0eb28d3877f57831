// Command spritekit-extra is installed next to spritekit, which runs it. It has the large and rarely needed dependencies, so that every
// skill starts faster without. It is "spritekit mcp", the git of images that have none, the
// judge of agents' answers, and the client of web.fetch.
//
//	spritekit-extra mcp …         serves the skills to an agent, as spritekit mcp does
//	spritekit-extra git-engine    does one operation of git: a request on stdin, a reply on stdout
//	spritekit-extra match-schema  compares an agent's answer with a JSON schema
//	spritekit-extra fetch-page    reads a page of the web as text
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/agent/schema"
	"github.com/spritekit/lattice/skills/git/delegate"
	"github.com/spritekit/lattice/skills/git/native"
	"github.com/spritekit/lattice/skills/web"
	"github.com/spritekit/lattice/skills/web/page"
	"github.com/spritekit/lattice/spritekit/cli"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// app is the process seen from its arguments.
type app struct {
	env    skill.Env
	stdin  *os.File
	stdout io.Writer
	stderr io.Writer
}

func main() {
	a := app{env: skill.ParseEnv(os.Environ()), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.runMain(os.Args[1:]))
}

func (a app) runMain(args []string) int {
	switch {
	case len(args) > 0 && args[0] == "mcp":
		return cli.Exit(a.stderr, "mcp", a.serveMCP(args[1:]), slices.Contains(args, "--json"))
	case len(args) == 1 && args[0] == delegate.Command:
		return cli.Exit(a.stderr, delegate.Command, a.serveGit(), false)
	case len(args) == 1 && args[0] == answer.Command:
		return cli.Exit(a.stderr, answer.Command, a.matchSchema(), false)
	case len(args) == 1 && args[0] == web.Command:
		return cli.Exit(a.stderr, web.Command, a.fetchPage(), false)
	case len(args) == 1 && args[0] == "version":
		fmt.Fprintf(a.stdout, "%s %s\n", protocol.Extra, protocol.BuildVersion())
		return protocol.ExitOK
	}
	fmt.Fprintf(a.stderr, "%s is run by spritekit, beside which it lies.\nhint: spritekit help\n", protocol.Extra)
	return protocol.ExitBadInput
}

// serveGit does one operation of git.
func (a app) serveGit() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cli.CancelAtSignal(cancel)
	return delegate.Serve(ctx, native.Engine{}, a.stdin, a.stdout)
}

// matchSchema makes a comparison in this process.
func matchSchema(_ context.Context, c answer.Comparison) (v answer.Verdict, err error) {
	v.NoSchema, v.Mismatch = schema.Match(c.Schema, c.Value)
	return v, nil
}

// matchSchema makes one comparison.
func (a app) matchSchema() error {
	var c answer.Comparison
	if err := json.NewDecoder(a.stdin).Decode(&c); err != nil {
		return fmt.Errorf("read the comparison: %w", err)
	}
	verdict, err := matchSchema(context.Background(), c)
	if err != nil {
		return err
	}
	return cli.WriteJSON(a.stdout, verdict)
}

// fetchPage reads one page of the web.
func (a app) fetchPage() error {
	var r web.Request
	if err := json.NewDecoder(a.stdin).Decode(&r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cli.CancelAtSignal(cancel)
	return cli.WriteJSON(a.stdout, page.Fetch(ctx, r))
}
