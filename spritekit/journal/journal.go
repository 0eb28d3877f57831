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
// Anything in the sprite can write these files. A damaged journal is ErrCorrupt; only a torn last line is repaired.
// No content of a journal gives a call more permissions.
//
// Two kinds of records are synced: Suspending, because the checkpoint must contain it, and records that guard an effect
// outside the sprite. All others must only survive the process, for which a write is enough; after a loss of power the
// sprite is restored, or the result is in the outbox.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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

// maxRecord is far more than the largest record needs, in bytes. A journal has no limit: a call can wait many times.
const maxRecord = 16 << 20

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
	Answer        *protocol.Resume        `json:"answer,omitempty"`         // Suspending, of a nested call: from the call that it was made for
	Exit          int                     `json:"exit,omitempty"`           // Done
	Result        json.RawMessage         `json:"result,omitempty"`         // Done; absent for read skills
	OutboxAt      int64                   `json:"outbox_at,omitempty"`      // Started, Resumed: how long the outbox was then
}

// Call is the open and locked journal of one call.
type Call struct {
	name string
	file *os.File // nil as long as a fresh call needs none
	held []Record // of a fresh call: records that are not written yet
	root *workspace.Root
	now  func() time.Time
	last Record // the zero Record for a call never seen
	size int64

	made     bool // the file, by this process
	unsynced bool // is its name
}

// Open opens and locks the journal of a call, waiting for another process that works on it. skill and inputSHA256
// must be those of the first time.
func Open(ctx context.Context, root *workspace.Root, id, skill, inputSHA256 string, now func() time.Time) (*Call, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	c := &Call{name: protocol.CallsDir + "/" + id + ".jsonl", root: root, now: now}
	if err := c.openCall(ctx); err != nil {
		return nil, err
	}
	if err := c.loadRecords(skill, inputSHA256); err != nil {
		return nil, errors.Join(err, c.file.Close())
	}
	return c, nil
}

// Fresh begins the journal of a call with a new random id, so that no other process can ask for it before it
// suspends. Only then is there a file: calls from a shell leave none behind.
func Fresh(root *workspace.Root, id, skill, inputSHA256 string, now func() time.Time) (*Call, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	return &Call{
		name: protocol.CallsDir + "/" + id + ".jsonl", root: root, now: now, last: Record{Skill: skill, InputSHA256: inputSHA256},
	}, nil
}

// openCall opens and locks the file. A file that was pruned while we waited for its lock is created again.
func (c *Call) openCall(ctx context.Context) error {
	for {
		f, made, err := c.root.Runtime().Open(c.name)
		if err != nil {
			return fmt.Errorf("open call journal: %w", err)
		}
		// Who waits here waits for a whole skill, so that a few milliseconds do not matter.
		if err := workspace.Lock(ctx, f, 50*time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("wait for the call's other process: %w", err), f.Close())
		}
		_, still, err := c.root.StillNamed(f, c.name)
		if err != nil {
			return errors.Join(fmt.Errorf("open call journal: %w", err), f.Close())
		}
		if still {
			c.file, c.made, c.unsynced = f, made, made
			return nil
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("open call journal: %w", err)
		}
	}
}

func (c *Call) loadRecords(skill, inputSHA256 string) error {
	if err := c.readFile(); err != nil {
		return fmt.Errorf("%w (%s)", err, c.name)
	}
	if c.last.State == "" {
		c.last.Skill, c.last.InputSHA256 = skill, inputSHA256
	}
	if c.last.Skill != skill || c.last.InputSHA256 != inputSHA256 {
		return ErrOtherInput
	}
	return nil
}

// readFile checks all records and keeps the last. A torn last line is cut off: its record was never believed.
func (c *Call) readFile() error {
	torn, err := c.parseRecords()
	if err != nil || !torn {
		return err
	}
	if err := c.file.Truncate(c.size); err != nil {
		return fmt.Errorf("cut off torn line: %w", err)
	}
	return nil
}

// parseRecords reads the file, up to a torn last line.
func (c *Call) parseRecords() (torn bool, err error) {
	lines := bufio.NewScanner(c.file)
	lines.Buffer(nil, maxRecord)
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, '\n') + 1; end > 0 {
			return end, data[:end], nil
		}
		torn = atEOF && len(data) > 0
		return 0, nil, nil
	})
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return false, fmt.Errorf("%w: line %d: %v", ErrCorrupt, n, err)
		}
		if err := c.last.checkFollows(r); err != nil {
			return false, fmt.Errorf("%w: line %d: %v", ErrCorrupt, n, err)
		}
		c.last = r
		c.size += int64(len(line))
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, fmt.Errorf("%w: a record has more than %d bytes", ErrCorrupt, maxRecord)
	case err != nil:
		return false, fmt.Errorf("read call journal: %w", err)
	}
	return torn, nil
}

// checkFollows says why r cannot come after last.
func (last Record) checkFollows(r Record) error {
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
	if err := c.last.checkFollows(r); err != nil {
		return fmt.Errorf("append to call journal: %w", err)
	}
	if c.file == nil && r.State != Suspending {
		c.held, c.last = append(c.held, r), r
		return nil
	}
	if c.file == nil {
		if err := c.openCall(context.Background()); err != nil { // no other process knows the name, so it does not wait
			return err
		}
	}
	if err := c.writeRecords(append(slices.Clone(c.held), r)); err != nil {
		return fmt.Errorf("append to call journal: %w", err)
	}
	c.held, c.last = nil, r
	if !sync {
		return nil
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync call journal: %w", err)
	}
	if c.unsynced {
		c.unsynced = false
		return c.root.SyncDir(protocol.CallsDir)
	}
	return nil
}

// writeRecords appends records in one write. One that came up short (a full disk) is taken back.
func (c *Call) writeRecords(records []Record) error {
	var lines bytes.Buffer
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	if _, err := c.file.Write(lines.Bytes()); err != nil {
		if terr := c.file.Truncate(c.size); terr != nil {
			err = errors.Join(err, fmt.Errorf("take the torn line back: %w", terr))
		}
		return err
	}
	c.size += int64(lines.Len())
	return nil
}

// Made reports whether this process made the journal's file.
func (c *Call) Made() bool { return c.made }

// Close releases the lock.
func (c *Call) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
