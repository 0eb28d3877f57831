package skill

import (
	"context"
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Func does the work of one skill. It reads no environment, changes no directory and never exits the process.
// A returned *Error becomes the fault and its exit code; any other error becomes "internal" (70).
type Func func(ctx context.Context, c *Call) (Result, error)

// Skill is one member of the list of built-in skills.
type Skill struct {
	Name string // manifest name; the manifest itself is manifests.Lookup(Name)
	Run  Func
}

// Call is all that a skill knows of its caller.
type Call struct {
	ID             string
	RunID          string
	SpriteID       string
	WorkItemID     string
	IdempotencyKey string
	Manifest       manifests.Skill
	Input          json.RawMessage  // checked: an object without unknown keys
	Grants         Grants           // what this call may do
	Root           *workspace.Root  // the workspace, usually /workspace
	Socket         string           // the sprite's api socket, "" when there is none
	Resume         *protocol.Resume // set when this call continues after WAITING
	Env            []string         // environment for child processes that may see the sprite's own
	Stderr         Writer           // for people

	emit    func(protocol.Payload) error
	suspend func(ctx context.Context, reason string, expected map[string]string, request *protocol.ActionRequest) (Result, error)
	warn    []protocol.Warning
}

// Writer is io.Writer; named so that the fields above line up with their meaning.
type Writer interface{ Write([]byte) (int, error) }

// Bind decodes the input strictly into the struct that v points to; a mismatch is a bad_input error with a pointer.
func (c *Call) Bind(v any) error { return nil }

// Emit appends one event to the outbox and writes it to stdout.
func (c *Call) Emit(p protocol.Payload) error { return c.emit(p) }

// Progress emits INFO kind "progress", at most four a second.
func (c *Call) Progress(message string, metadata any) {}

// Warn adds a warning to the result.
func (c *Call) Warn(code, message string) {
	c.warn = append(c.warn, protocol.Warning{Code: code, Message: message})
}

// Suspend pauses the call: ACTION_REQUEST (when request is not nil), checkpoint, WAITING. The skill returns what
// Suspend returns, at once. When the call runs again, Resume holds the inputs.
func (c *Call) Suspend(ctx context.Context, reason string, expected map[string]string, request *protocol.ActionRequest) (Result, error) {
	return c.suspend(ctx, reason, expected, request)
}

// Result is what a skill hands back. Data is marshalled to the result's data.
type Result struct {
	Data    any
	Waiting *protocol.Waiting
}

// Grants is the set of permissions of a call.
type Grants struct {
	All  bool
	Only []string
}

// Allows reports whether permission p is granted.
func (g Grants) Allows(p string) bool { return false }

// Error is a failure that a caller can act on. Exit is one of the protocol.Exit codes.
type Error struct {
	Code      string
	Message   string
	Hint      string
	Retryable bool
	Details   any
	Exit      int
}

func (e *Error) Error() string { return e.Message }
