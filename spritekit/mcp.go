package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/mcp"
	"github.com/spritekit/lattice/spritekit/skill"
)

// serveMCP offers the skills to an agent until its client goes away, or a signal comes.
func (a app) serveMCP(args []string) error {
	options := mcp.Options{Version: version, Env: a.env, Stderr: a.stderr}
	addr, dir := "", ""
	args, options.Verbose = flag(args, "--verbose")
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if args = args[1:]; !ok && len(args) > 0 {
			value, args, ok = args[0], args[1:], true
		}
		if !ok || value == "" {
			return usagef("%s lacks a value", name)
		}
		switch name {
		case "--http":
			addr = value
		case "--skills":
			dir = value
		case "--tools":
			options.Tools = append(options.Tools, strings.Split(value, ",")...)
		case "--allow":
			options.Env.Grants = options.Env.Grants.And(skill.ParseGrants(value))
		default:
			return usagef("there is no flag %s", name)
		}
	}
	list, err := a.offered(dir)
	if err != nil {
		return err
	}
	server, err := mcp.New(list, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	catch(cancel)
	if addr == "" {
		return server.Stdio(ctx, a.stdin, nopCloser{a.stdout})
	}
	return server.HTTP(ctx, addr, func(url string) {
		if err := a.json(map[string]string{"url": url}); err != nil {
			fmt.Fprintf(a.stderr, "spritekit mcp: %v\n", err)
			cancel()
		}
	})
}

// offered lists the built-in skills and those that lie in dir, by default the folder of this binary.
func (a app) offered(dir string) ([]mcp.Skill, error) {
	if dir == "" {
		var err error
		if dir, err = besides(); err != nil {
			return nil, err
		}
	}
	var set skills.Set
	var list []mcp.Skill
	for _, s := range set.All() {
		m, ok := manifests.Lookup(s.Name)
		if !ok {
			return nil, fmt.Errorf("this binary has no manifest of %s", s.Name)
		}
		list = append(list, mcp.Skill{Manifest: m, Serve: func(ctx context.Context, env skill.Env, streams skill.IO) int {
			return skill.Serve(ctx, s, m, env, streams)
		}})
	}
	warn := func(err error) { fmt.Fprintf(a.stderr, "spritekit mcp: %v\n", err) }
	for _, s := range dropin.List(dir, warn) {
		list = append(list, mcp.Skill{Manifest: s.Skill, Serve: set.Foreign(s.Skill, s.Command())})
	}
	return list, nil
}

// nopCloser leaves stdout open: it is the process's.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
