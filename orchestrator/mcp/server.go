package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"reflect"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	skillmcp "github.com/spritekit/lattice/spritekit/mcp"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Server offers the tools to one client.
type Server struct {
	env    *setup.Env
	o      Options
	server *sdk.Server
	names  []string // of all tools, offered or not
}

// Names lists the tools, those that need Options.Decide last.
func (s *Server) Names() []string { return s.names }

// Serve serves the client that writes to in and reads from out, until in ends or ctx does. Calls that run then are abandoned;
// runs go on.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.server.Run(ctx, skillmcp.Lines(in, out))
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve MCP on standard input and output: %w", err)
	}
	return nil
}

// hints say what a tool does to its surroundings.
type hints struct {
	reads, destroys, repeats bool // repeats: calling it twice is the same as calling it once
}

// add offers a tool if the options do. Without a result of its own, do returns the value for the client.
func add[In any](s *Server, name, description string, h hints, do func(context.Context, *sdk.CallToolRequest, In) (any, error)) {
	s.names = append(s.names, name)
	if !s.offers(name) {
		return
	}
	open := false
	sdk.AddTool(s.server, &sdk.Tool{Name: name, Description: description, Annotations: &sdk.ToolAnnotations{
		ReadOnlyHint: h.reads, DestructiveHint: &h.destroys, IdempotentHint: h.repeats, OpenWorldHint: &open,
	}}, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		value, err := do(ctx, req, in)
		if own, ok := value.(*sdk.CallToolResult); ok && err == nil {
			return own, nil, nil
		}
		return s.newResult(value, err), nil, nil
	})
}

// offers reports whether the options let clients see a tool.
func (s *Server) offers(name string) bool {
	return s.o.Tools == nil || slices.ContainsFunc(s.o.Tools, func(pattern string) bool { return isMatch(pattern, name) })
}

func isMatch(pattern, name string) bool {
	match, err := path.Match(pattern, name)
	return err == nil && match
}

// maxItems bounds a list in a result: a model reads it.
const maxItems = 200

// newResult returns a value or an error as the result of a tool. Structured content is an object: a list is its member items, and
// left_out says how many items are missing at its end.
func (s *Server) newResult(value any, err error) *sdk.CallToolResult {
	if err != nil {
		value = s.describeError(err)
	}
	end := "}"
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && list.Type() != reflect.TypeFor[json.RawMessage]() && list.Len() > maxItems {
		value, end = list.Slice(0, maxItems).Interface(), fmt.Sprintf(`,"left_out":%d}`, list.Len()-maxItems)
	}
	text, marshalErr := json.Marshal(value)
	if marshalErr != nil {
		return s.newResult(nil, fmt.Errorf("encode the result: %w", marshalErr))
	}
	switch text[0] {
	case '[':
		text = slices.Concat([]byte(`{"items":`), text, []byte(end))
	case 'n': // null, of an empty list
		text = []byte(`{"items":[]}`)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text), IsError: err != nil}
}

// describeError returns an error as --json prints it, with its remedy.
func (s *Server) describeError(err error) *fault.Error {
	if err = setup.ExplainSprite(err); s.env.Explain != nil {
		err = s.env.Explain(err)
	}
	if p, ok := errors.AsType[*fault.Error](err); ok {
		return p
	}
	return fault.New(protocol.ExitFailed, "failed", "%v", err)
}

// options returns the options with which a call reaches the leader.
func (s *Server) options(session *sdk.ServerSession) connect.Options {
	via := "mcp"
	if p := session.InitializeParams(); p != nil && p.ClientInfo != nil && p.ClientInfo.Name != "" {
		via += " " + p.ClientInfo.Name
	}
	return connect.Options{Detach: true, Via: via, Over: s.o.Over}
}

// withLeader calls do with a connection to the leader, which is started if there is none.
func withLeader[Out any](ctx context.Context, s *Server, session *sdk.ServerSession, do func(*connect.Conn) (Out, error)) (out Out, err error) {
	c, err := connect.Dial(ctx, s.env, s.options(session))
	if err != nil {
		return out, err
	}
	defer c.Close()
	return do(c)
}

// withSprites calls do with a client of the sprite host.
func withSprites[Out any](ctx context.Context, s *Server, session *sdk.ServerSession, do func(*sprites.Client) (Out, error)) (out Out, err error) {
	if remote := s.env.RemoteSprites(); remote != nil {
		if s.o.Over != nil {
			return out, fault.Unsupported("unsupported", "the sprites are those of a remote Sprites API, which has tokens of its own").WithHint("use that API, or lattice mcp on the machine of the leader")
		}
		return do(remote)
	}
	return withLeader(ctx, s, session, func(c *connect.Conn) (Out, error) {
		over := s.o.Over
		if over == nil {
			over = api.HTTPClient(c.Socket)
		}
		hc := caller.Via(over, s.options(session).Via)
		defer hc.CloseIdleConnections()
		return do(sprites.New(api.Base, "", hc))
	})
}

// Options of a server.
type Options struct {
	Tools  []string // patterns such as sprite_* of the tools to offer; nil offers all that Decide allows
	Decide bool     // offer the tools that decide for the person
	// Over carries the requests of a caller over HTTP to the leader, with the rights of that caller; nil is a client of this user.
	Over *http.Client
}
