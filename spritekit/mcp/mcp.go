// Package mcp offers skills to agents as tools of the Model Context Protocol: over stdin and stdout, or over streamable
// HTTP on loopback. Look at New first, then at Server.Stdio and Server.HTTP.
//
// A tool is a skill's manifest seen by a client (tools.go): name, JSON Schema of the input, hints from permissions and
// class. A call (call.go) is a call of the skill as any other, made in this process, with an id of its
// own; its events go to the outbox and never to stdout, which carries JSON-RPC; the structured content for
// the client is the result line of the skill (DESIGN 13), including errors, so that a model which sees only that knows the
// outcome and the remedy.
//
// The package decides nothing about permissions: each call gets the grants of Options.Env, and the runtime refuses calls that
// they do not cover. Hints are hints; clients may ignore them.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Skill is one that can be offered.
type Skill struct {
	Manifest manifests.Skill
	// Serve makes one call as skill.Serve does: one JSON object from Stdin, event lines and then the result line to
	// Stdout, the exit code back. It may be called concurrently.
	Serve func(ctx context.Context, env skill.Env, streams skill.IO) int
}

// Options select the skills of a server and the identity of its calls.
type Options struct {
	Version  string    // of the binary, for the client
	Env      skill.Env // of every call; its call id, key and inputs are not used
	Tools    []string  // patterns such as fs.* of the skills to offer; nil offers everything that Env's grants allow
	Parallel int       // calls side by side; 0 is 8
	Stderr   io.Writer // for people; written to by one goroutine at a time
	Verbose  bool      // copy events to Stderr
}

// Server offers skills. It serves any number of clients at once, and once: by Stdio or by HTTP.
type Server struct {
	server  *sdk.Server
	options Options
	names   map[string]string // of skills by the name of their tool; complete when New returns
	slots   chan struct{}     // one for each call that may run
	stderr  *lockedWriter
	life    context.Context // every call ends with it: the library waits for calls, but does not end them
	end     context.CancelFunc
}

// New makes the server of these skills. A skill that the grants do not allow, or whose manifest makes no tool, is left
// out and told on Stderr; a pattern that names none is an error.
func New(list []Skill, o Options) (*Server, error) {
	s := &Server{
		options: o, names: map[string]string{}, slots: make(chan struct{}, cmp.Or(o.Parallel, defaultParallel)), stderr: &lockedWriter{w: o.Stderr},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.options.Env.CallID, s.options.Env.IdempotencyKey, s.options.Env.Inputs = "", "", nil
	s.options.Env.MaxResult = MaxResult
	s.server = sdk.NewServer(
		&sdk.Implementation{Name: "spritekit", Title: "Skills of this sprite", Version: o.Version},
		&sdk.ServerOptions{Instructions: newInstructions(o.Env.Workspace), Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}},
	)
	chosen, err := chooseSkills(list, o.Tools)
	if err != nil {
		return nil, err
	}
	for _, k := range chosen {
		if missing := missingGrants(k.Manifest, o.Env.Grants); missing != nil {
			fmt.Fprintf(s.stderr, "spritekit mcp: %s is not offered: it needs %s\n", k.Manifest.Name, strings.Join(missing, ", "))
			continue
		}
		if err := s.addTool(k, o.Tools != nil); err != nil {
			fmt.Fprintf(s.stderr, "spritekit mcp: %s is not offered: %v\n", k.Manifest.Name, err)
		}
	}
	return s, nil
}

// chooseSkills keeps the skills that one of the patterns names, in their order; without patterns, those that are tools.
func chooseSkills(list []Skill, patterns []string) ([]Skill, error) {
	if patterns == nil {
		return slices.DeleteFunc(slices.Clone(list), func(k Skill) bool { return isStep(k.Manifest.Name) }), nil
	}
	wanted := map[string]bool{}
	for _, pattern := range patterns {
		found := false
		for _, k := range list {
			match, err := path.Match(pattern, k.Manifest.Name)
			if err != nil {
				return nil, skill.BadInput("", "%q is no pattern of names: %v", pattern, err).WithHint("such as fs.* or git.status")
			}
			found = found || match
			wanted[k.Manifest.Name] = wanted[k.Manifest.Name] || match
		}
		if !found {
			return nil, fault.NotFound("not_found", "there is no skill %s", pattern).WithHint("spritekit skills lists them")
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(k Skill) bool { return !wanted[k.Manifest.Name] }), nil
}

// missingGrants lists the permissions without which no call of a skill can succeed, nil when one can.
func missingGrants(m manifests.Skill, grants skill.Grants) []string {
	lacks := func(permissions []string) (lacking []string) {
		for _, p := range permissions {
			if !grants.Allows(p) {
				lacking = append(lacking, p)
			}
		}
		return lacking
	}
	if m.Variants == nil {
		return lacks(m.Permissions)
	}
	least := lacks(m.Variants.Cases[m.Variants.Default].Permissions)
	for _, v := range m.Variants.Cases {
		if least != nil && lacks(v.Permissions) == nil {
			least = nil
		}
	}
	return least
}

// addTool offers one skill. The library panics on an invalid schema, which a third-party manifest may have.
func (s *Server) addTool(k Skill, always bool) (err error) {
	t, err := newTool(k.Manifest, always)
	if err != nil {
		return err
	}
	if other, ok := s.names[t.tool.Name]; ok {
		return fmt.Errorf("%s has the tool name %s already", other, t.tool.Name)
	}
	s.names[t.tool.Name] = k.Manifest.Name
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its manifest makes no tool: %v", p)
		}
	}()
	s.server.AddTool(t.tool, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return s.callSkill(ctx, k, t, req)
	})
	return nil
}

// Stdio serves one client that writes to in and reads from out, until in ends or ctx does. Calls that run then are
// cancelled and waited for.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	defer context.AfterFunc(ctx, s.end)()
	defer s.end()
	err := s.server.Run(ctx, Lines(in, out))
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve MCP on stdin and stdout: %w", err)
	}
	return nil
}

// Lines is the transport of one client that writes a message a line to in and reads from out. A line that is not a message is
// answered, and does not end the session.
func Lines(in io.ReadCloser, out io.WriteCloser) sdk.Transport {
	shared := &lockedWriter{w: out}
	return &sdk.IOTransport{
		Reader: newLines(in, shared), Writer: struct {
			io.Writer
			io.Closer
		}{shared, out}, MaxLineLength: maxMessage,
	}
}

func newInstructions(workspace string) string {
	return "Skills of the sprite whose workspace is " + workspace + ". Paths are relative to it. Every result is one object: " +
		`{"ok":true,"data":{…}}, {"ok":false,"error":{"code","message","hint"}}, or {"ok":true,"waiting":{…}} when a person or the ` +
		"orchestrator must answer first: then end your turn, the answer comes later. Data too large for an answer is a file that the result names."
}
