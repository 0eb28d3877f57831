// Package journal is the call journal of a sprite: .lattice/calls/<call_id>.jsonl, one file per call. It guards
// against doing a call twice within one timeline of the sprite (DESIGN 14). Look at Call first.
//
//	started ──► done(result)
//	   └──► suspending(reason, expected_inputs, checkpoint_id once known) ──► resumed(payload hash) ──► done(result)
//
// A lock on the file is held while the work runs: a second process with the same id waits, and a free lock without a
// result means that the first one crashed. Suspending is on disk before the checkpoint is taken, so that the
// checkpoint knows that it is one.
//
// Anything in the sprite can write these files. A journal that does not make sense is ErrCorrupt; it is never repaired
// beyond a torn last line, and nothing in it widens what a call may do.
package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// State is where a call stands.
type State string

// The states of a call. The zero State is that of a call never seen.
const (
	Started    State = "started"
	Suspending State = "suspending"
	Resumed    State = "resumed"
	Done       State = "done"
)

// next is the table of legal transitions. A call may start again after a crash, and a done call may be resumed again
// with another answer.
var next = map[State][]State{
	"":         {Started},
	Started:    {Started, Suspending, Done},
	Suspending: {Suspending, Resumed},
	Resumed:    {Resumed, Suspending, Done},
	Done:       {Started, Resumed},
}

// maxSize is far more than a journal with the largest results needs, in bytes.
const maxSize = 16 << 20

var (
	// ErrCorrupt is wrapped when a journal does not make sense: something else wrote it.
	ErrCorrupt = errors.New("call journal is corrupt")
	// ErrOtherInput is returned when the id was used for another skill or input.
	ErrOtherInput = errors.New("call id was used with another input")
	// ErrBadID is wrapped when a call id cannot be a file name.
	ErrBadID = errors.New("bad call id")
)

// CheckID refuses ids that could not be file names.
func CheckID(id string) error {
	// A loop and no pattern: compiling one would cost every skill a tenth of its start-up time.
	bad := strings.IndexFunc(id, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	})
	if id == "" || len(id) > 128 || bad >= 0 {
		return fmt.Errorf("%w: %.140q is not 1 to 128 letters, digits, _ or -", ErrBadID, id)
	}
	return nil
}

// Record is one line of a journal.
type Record struct {
	State         State                   `json:"state"`
	At            string                  `json:"at"`
	Skill         string                  `json:"skill"`
	InputSHA256   string                  `json:"input_sha256"`
	PayloadSHA256 string                  `json:"payload_sha256,omitempty"` // of the resume that is being or was processed
	Waiting       *protocol.Waiting       `json:"waiting,omitempty"`        // Suspending; CheckpointID "" until it is taken
	Request       *protocol.ActionRequest `json:"request,omitempty"`        // Suspending
	Exit          int                     `json:"exit,omitempty"`           // Done
	Result        json.RawMessage         `json:"result,omitempty"`         // Done; absent for read skills
}

// Call is the open and locked journal of one call.
type Call struct {
	file *os.File
	root *workspace.Root
	now  func() time.Time
	last Record // the zero Record for a call never seen
	made bool
}

// Open opens and locks the journal of a call, waiting for another process that works on it. skill and inputSHA256
// must be those of the first time.
func Open(ctx context.Context, root *workspace.Root, id, skill, inputSHA256 string, now func() time.Time) (*Call, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	if err := root.MkdirAll(protocol.CallsDir); err != nil {
		return nil, fmt.Errorf("open call journal: %w", err)
	}
	name := protocol.CallsDir + "/" + id + ".jsonl"
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open call journal: %w", err)
	}
	c := &Call{file: f, root: root, now: now}
	if err := c.load(ctx, name, skill, inputSHA256); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

func (c *Call) load(ctx context.Context, name, skill, inputSHA256 string) error {
	if err := lock(ctx, c.file); err != nil {
		return fmt.Errorf("wait for the call's other process: %w", err)
	}
	if err := c.read(); err != nil {
		return fmt.Errorf("%w (%s)", err, name)
	}
	if c.made = c.last.State == ""; c.made {
		c.last.Skill, c.last.InputSHA256 = skill, inputSHA256
	}
	if c.last.Skill != skill || c.last.InputSHA256 != inputSHA256 {
		return ErrOtherInput
	}
	return nil
}

// lock takes the file's lock. The kernel offers no lock that a context can end, hence the widening retries; who waits
// here waits for a whole skill, so that a few milliseconds do not matter.
func lock(ctx context.Context, f *os.File) error {
	wait := time.Millisecond
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// read checks all records and keeps the last. A torn last line is cut off: its record was never believed.
func (c *Call) read() error {
	data, err := io.ReadAll(io.LimitReader(c.file, maxSize+1))
	if err != nil {
		return fmt.Errorf("read call journal: %w", err)
	}
	if len(data) > maxSize {
		return fmt.Errorf("%w: it has more than %d bytes", ErrCorrupt, maxSize)
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole < len(data) {
		if err := c.file.Truncate(int64(whole)); err != nil {
			return fmt.Errorf("cut off torn line: %w", err)
		}
	}
	for n := 1; whole > 0; n++ {
		line, rest, _ := bytes.Cut(data[:whole], []byte("\n"))
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrCorrupt, n, err)
		}
		if err := c.last.follow(r); err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrCorrupt, n, err)
		}
		c.last, data, whole = r, rest, len(rest)
	}
	return nil
}

// follow says why r cannot come after last.
func (last Record) follow(r Record) error {
	legal := false
	for _, s := range next[last.State] {
		legal = legal || s == r.State
	}
	switch {
	case !legal:
		return fmt.Errorf("%q cannot follow %q", r.State, last.State)
	case last.State != "" && (r.Skill != last.Skill || r.InputSHA256 != last.InputSHA256):
		return errors.New("skill or input changes")
	case r.State == Suspending && (r.Waiting == nil || r.Waiting.Reason == ""):
		return errors.New("suspending without a reason")
	case r.State == Resumed && r.PayloadSHA256 == "":
		return errors.New("resumed without a payload hash")
	}
	return nil
}

// Last is the record that the call stands at; its State is "" for a call never seen.
func (c *Call) Last() Record { return c.last }

// Append moves the call to r.State. Skill, input and time are filled in; sync makes the record durable before Append
// returns.
func (c *Call) Append(r Record, sync bool) error {
	r.Skill, r.InputSHA256, r.At = c.last.Skill, c.last.InputSHA256, protocol.FormatTime(c.now())
	if err := c.last.follow(r); err != nil {
		return fmt.Errorf("append to call journal: %w", err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("append to call journal: %w", err)
	}
	if _, err := c.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("append to call journal: %w", err)
	}
	c.last = r
	if !sync {
		return nil
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync call journal: %w", err)
	}
	if c.made {
		c.made = false
		return c.root.SyncDir(protocol.CallsDir)
	}
	return nil
}

// Close releases the lock.
func (c *Call) Close() error { return c.file.Close() }
