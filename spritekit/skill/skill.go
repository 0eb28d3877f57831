// Package skill is the contract between a skill and the runtime in the sprite. A skill is a Func: it gets a Call with
// checked input and returns a Result or an error. Serve carries one call from stdin to exit code:
//
//	stdin ─► strict JSON ─► manifest check ─► permissions ─► call journal ─► PHASE_STARTED ─► Func ─► PHASE_FINISHED ─► result
//
// A skill pauses by calling Call.Suspend: an optional ACTION_REQUEST, a checkpoint, WAITING, exit 75. When the answer has
// arrived the same call runs again with Resume set (DESIGN 24).
//
// The package reads no environment and never exits the process: ParseEnv takes the environment as a list, Serve returns
// the exit code, and one process may serve many calls. Any program in the sprite can write the files under .lattice, so
// that they are validated when they are read and never extend the permissions of a call.
package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Func does the work of one skill. It reads no environment, changes no directory and never exits the process.
// A returned *fault.Error becomes the fault and its exit code. Errors that wrap those of workspace, fs.ErrNotExist, ENOSPC or
// a context's are mapped by Fault; any other becomes "internal" (70). A nil error and a nil Data give data {}.
type Func func(ctx context.Context, c *Call) (Result, error)

// Typed returns the Func of a skill whose input decodes into an In and whose data is an Out. The input is decoded
// strictly, so that fn starts with a value instead of JSON. When fn returns an error its Out is dropped; a nil pointer as
// Out gives data {}. A skill that waits returns the error of Suspend, and its Out is not used.
func Typed[In, Out any](fn func(ctx context.Context, c *Call, in In) (Out, error)) Func {
	return func(ctx context.Context, c *Call) (Result, error) {
		var in In
		if err := c.Bind(&in); err != nil {
			return Result{}, err
		}
		out, err := fn(ctx, c, in)
		if err != nil {
			return Result{}, err
		}
		return Result{Data: out}, nil
	}
}

// Skill is one member of the list of built-in skills.
type Skill struct {
	Name string // manifest name; the manifest itself is manifests.Lookup(Name)
	Run  Func
}

// Call is one call of a skill. Its methods are safe for concurrent use, and fail after the Func has returned.
type Call struct {
	ID             string
	RunID          string
	SpriteID       string
	WorkItemID     string
	IdempotencyKey string
	Manifest       manifests.Skill
	Class          manifests.Class  // of this input, variants applied
	Input          json.RawMessage  // checked: an object without unknown keys, defaults filled in
	Grants         Grants           // what this call may do
	Root           *workspace.Root  // the workspace, usually /workspace
	Socket         string           // the sprite's api socket, "" if there is none
	Resume         *protocol.Resume // set when this call continues after WAITING
	Again          bool             // the call was cut off before, and its files were not restored
	Nested         bool             // an agent made the call; its checkpoints are no place to go back to
	Env            []string         // environment for child processes; without this call's id, key and inputs
	Stderr         Writer           // for people

	out *output
	// suspend is the runtime's side of Suspend.
	suspend func(ctx context.Context, w protocol.Waiting, request *protocol.ActionRequest) error
}

// Writer is io.Writer.
type Writer = io.Writer

// Bind decodes the input strictly into the struct that v points to; a mismatch is a bad_input error with a pointer.
func (c *Call) Bind(v any) error { return bind(c.Input, v) }

// Emit appends one event to the outbox and writes it to stdout. A payload above 256 KiB is moved to a file. Before an ERROR
// Emit takes a checkpoint, if it can, and adds its id to the details.
func (c *Call) Emit(p protocol.Payload) error {
	if e, ok := p.(protocol.Error); ok {
		p = WithPostMortem(context.Background(), c.Socket, e) // also after the call was cancelled
	}
	return c.out.emitPayload(p)
}

// Relay writes an event that is already in the outbox to stdout, so that readers see it live. It is counted as an event of
// the call only if it has the call's id: then "spritekit emit" appended it for this call.
func (c *Call) Relay(e protocol.Event) error { return c.out.relayEvent(e, e.CallID == c.ID) }

// progressInterval limits INFO events of kind "progress" to four a second.
const progressInterval = 250 * time.Millisecond

// Progress emits INFO of kind "progress", at most four a second; the others are dropped. An error is ignored: the next
// Emit returns it.
func (c *Call) Progress(message string, metadata any) { c.out.emitProgress(message, metadata) }

// Warn adds a warning to the result.
func (c *Call) Warn(code, message string) {
	c.out.addWarning(protocol.Warning{Code: code, Message: message})
}

// Suspend pauses the call: ACTION_REQUEST (when request is not nil; it becomes blocking), checkpoint, WAITING. The
// skill must return the error of Suspend at once; after a nil error the call waits, whatever data the skill returns. When
// the call runs again, Resume holds the inputs. expected maps each input's name to string, integer, boolean, map or
// array<T>.
func (c *Call) Suspend(ctx context.Context, reason string, expected map[string]string, request *protocol.ActionRequest) error {
	return c.suspend(ctx, protocol.Waiting{Reason: reason, ExpectedInputs: expected}, request)
}

// SuspendUntil is Suspend for a call that waits for a time. It is resumed then without inputs, or earlier by a person's answer.
func (c *Call) SuspendUntil(ctx context.Context, reason string, at time.Time) error {
	return c.suspend(ctx, protocol.Waiting{Reason: reason, ResumeAt: at.UTC().Format(time.RFC3339)}, nil)
}

// Inputs decodes the answers of a resumed call strictly into the struct that v points to.
func (c *Call) Inputs(v any) error {
	if c.Resume == nil {
		return fmt.Errorf("read the answers of call %s: it was not resumed", c.ID)
	}
	return bind(c.Resume.Inputs, v)
}

// Require returns a permission_denied error unless all permissions are granted. The runtime has checked those of the
// manifest; a skill checks those that depend on its input.
func (c *Call) Require(permissions ...string) error {
	return c.Grants.require(c.Manifest.Name, permissions)
}

// Result is the outcome of a successful call. Data is encoded as the data of the result line; above 256 KiB it is moved
// to a file.
type Result struct {
	Data any
}
