// Package outbox is the durable record of a sprite's events: /workspace/.lattice/outbox.jsonl, one JSON object per
// line. Look at Log first.
//
// Many processes append to one outbox, so every append holds a lock on the file, stamps the event under that lock with
// an instant later than the last line's (even when the clock went backwards), and is one write. Durable event types
// are fsynced before Append returns, hence before anyone shows them on stdout (DESIGN 8); INFO and PHASE_* ride along
// with the next durable line or Sync. A line torn by a crash is repaired before the next one is appended.
//
// Other programs in the sprite can write the file too: nothing in it is trusted, only its last timestamp is read, and
// one that lies too far ahead is ignored. A lock that is held for ever ends in ErrLocked, a file that is none in
// workspace.ErrUnsafe.
//
// However long the file is, opening it and appending read its last few KiB only; Results, which a call needs after a
// crash, reads from where that call began.
package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	// tailSize is how much of the file's end is read to find the last line's time, before all that a line may have.
	tailSize = 4 << 10
	// maxAhead is how far the last line's time may lie ahead of the clock and still be followed. A planted line of
	// the year 9999 would otherwise push every later event there.
	maxAhead = 24 * time.Hour
	// lockWait is how long an append waits for others, each of which takes milliseconds.
	lockWait = 10 * time.Second
)

// unset is before the protocol existed: a clock that shows less was never set, and says nothing about last lines.
var unset = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// ErrLocked is wrapped when something in the sprite holds the outbox's lock and does not let go.
var ErrLocked = errors.New("the outbox is locked by something else in the sprite")

// Stamp holds the members that the runtime sets in every event of a call.
type Stamp struct {
	SpriteID   string
	WorkItemID string
	CallID     string // "" for events of no call
}

// Log appends the events of one call. Its methods may be called concurrently.
type Log struct {
	*File
	stamp   Stamp
	shared  bool // the File outlives the Log
	spilled atomic.Bool
}

// File is an open outbox. The calls of one process may share it, each with a Log of its own.
type File struct {
	root *workspace.Root
	now  func() time.Time

	mu    sync.Mutex // guards the fields below
	file  *os.File
	is    fs.FileInfo // file, as it was opened
	dirty bool        // written since the last fsync
	// size and last let an append skip reading the tail if no other process has written since.
	size int64
	last time.Time
	own  int64 // from here to size all lines are ours
}

// Open opens the outbox of a workspace and makes it where it is missing. A torn last line is repaired by the first
// Append.
func Open(root *workspace.Root, stamp Stamp, now func() time.Time) (*Log, error) {
	f, err := OpenFile(root, now)
	if err != nil {
		return nil, err
	}
	return &Log{File: f, stamp: stamp}, nil
}

// OpenFile is Open for several calls.
func OpenFile(root *workspace.Root, now func() time.Time) (*File, error) {
	f := &File{root: root, now: now}
	if err := f.openFile(); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	return f, nil
}

// Log is the outbox for one call. Closing it leaves the file open.
func (l *File) Log(stamp Stamp) *Log { return &Log{File: l, stamp: stamp, shared: true} }

// Own returns the last part of the outbox that was written through l alone, up to the last append.
func (l *File) Own() (from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size < 0 {
		return 0, 0 // after an error the next append reads the tail
	}
	return l.own, l.size
}

// Append stamps p, appends it and returns the event with its line in Raw. A payload above protocol.SpillAt is spilled to a
// file first. When Append fails, nothing of the event is in the file, unless it says that the sync failed.
func (l *Log) Append(p protocol.Payload) (protocol.Event, error) {
	events, err := l.AppendAll(p)
	if err != nil {
		return protocol.Event{}, err
	}
	return events[0], nil
}

// AppendAll is Append of several events, in this order, with nothing between them: all of them are recorded, or none.
func (l *Log) AppendAll(payloads ...protocol.Payload) ([]protocol.Event, error) {
	return l.AppendSince(time.Time{}, payloads...)
}

// AppendSince is AppendAll for events of which the first was held back since then: it gets that time, unless another event was
// recorded since. The zero time means that none was held back.
func (l *Log) AppendSince(then time.Time, payloads ...protocol.Payload) ([]protocol.Event, error) {
	events := make([]protocol.Event, len(payloads))
	sync := false
	for i, p := range payloads {
		var err error
		if events[i], err = l.newEvent(p); err != nil {
			return nil, fmt.Errorf("append to outbox: %w", err)
		}
		sync = sync || isDurable(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size, err := l.lockFile()
	if err != nil {
		return nil, fmt.Errorf("append to outbox: %w", err)
	}
	defer l.unlockFile()
	if err := l.catchUp(size); err != nil {
		return nil, fmt.Errorf("append to outbox: %w", err)
	}
	lines := make([]byte, 0, 1<<10)
	last := l.last
	for i := range events {
		e := &events[i]
		at := then.UTC()
		if i > 0 || then.IsZero() {
			at = l.now().UTC()
		}
		if !at.After(last) {
			at = last.Add(time.Nanosecond)
		}
		last = at
		e.EventID, e.Timestamp = NewID(at), protocol.FormatTime(at)
		e.SpriteID, e.WorkItemID, e.CallID = l.stamp.SpriteID, l.stamp.WorkItemID, l.stamp.CallID
		if e.Raw, err = protocol.Encode(*e); err != nil {
			return nil, fmt.Errorf("append to outbox: %w", err)
		}
		lines = append(append(lines, e.Raw...), '\n')
	}
	if err := l.writeLines(lines); err != nil {
		return nil, fmt.Errorf("append to outbox: %w", err)
	}
	l.last = last
	if sync {
		return events, l.syncFile()
	}
	return events, nil
}

// newEvent is p as an event without a stamp, its bulk in a file.
func (l *Log) newEvent(p protocol.Payload) (protocol.Event, error) {
	e, err := protocol.New(p)
	if err == nil && len(e.Payload) > protocol.SpillAt {
		l.spilled.Store(true)
		if p, err = spillPayload(l.root, p); err == nil {
			e, err = protocol.New(p)
		}
	}
	return e, err
}

// isDurable reports whether p must be on disk before anyone sees it. Results are INFO; the runtime syncs them itself
// where they matter.
func isDurable(p protocol.Payload) bool {
	switch p.EventType() {
	case protocol.TypeActionRequest, protocol.TypeWaiting, protocol.TypeCompleted, protocol.TypeError,
		protocol.TypeArtifact, protocol.TypeEnvironmentProposal:
		return true
	}
	return false
}

// Sync makes everything appended so far durable.
func (l *File) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncFile()
}

func (l *File) syncFile() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync outbox: %w", err)
	}
	l.dirty = false
	return nil
}

// Spilled reports whether this Log moved any payload to a file.
func (l *Log) Spilled() bool { return l.spilled.Load() }

// Close ends the Log, and releases the file unless that is shared.
func (l *Log) Close() error {
	if l.shared {
		return nil
	}
	return l.File.Close()
}

// Close releases the file; the system writes data that was not synced.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

func (l *File) openFile() error {
	f, made, err := l.root.Runtime().Open(protocol.OutboxFile)
	if err != nil {
		return err
	}
	if made {
		if err := l.root.SyncDir(protocol.Dir); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	is, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.is, l.size, l.last = f, is, -1, time.Time{}
	return nil
}

// lockFile takes the file's lock and returns the file's size. If the file was removed or renamed in between (a skill may
// clean the workspace), it is created again: events must not go to a file that is not read.
func (l *File) lockFile() (size int64, err error) {
	for {
		if err := l.flockFile(); err != nil {
			return 0, fmt.Errorf("lock: %w", err)
		}
		if info, err := l.root.Runtime().Glance(protocol.OutboxFile); err == nil && os.SameFile(info, l.is) {
			return info.Size(), nil
		}
		info, still, err := l.root.StillNamed(l.file, protocol.OutboxFile)
		if still {
			return info.Size(), nil
		}
		l.unlockFile()
		old := l.file
		if err == nil {
			err = l.openFile()
		}
		if err != nil {
			return 0, err
		}
		if err := old.Close(); err != nil {
			return 0, err
		}
	}
}

// flockFile takes the lock. Nearly always it is free, and a deadline would cost more than the lock.
func (l *File) flockFile() error {
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK && err != syscall.EINTR {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockWait, ErrLocked)
	defer cancel()
	return workspace.Lock(ctx, l.file, 20*time.Millisecond)
}

// unlockFile cannot fail on an open file; closing it would unlock it as well.
func (l *File) unlockFile() { _ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN) }

// catchUp repairs the tail and learns the last line's time, if another process has written since the last append.
func (l *File) catchUp(size int64) error {
	if size == l.size {
		return nil
	}
	tail, start, err := l.readTail(size, tailSize)
	if err == nil && start > 0 && bytes.Count(tail, []byte("\n")) < 2 {
		tail, start, err = l.readTail(size, protocol.MaxLine)
	}
	if err != nil {
		return err
	}
	if l.size, err = l.repairTail(tail, start); err != nil {
		return fmt.Errorf("repair torn line: %w", err)
	}
	l.own = l.size
	now := l.now()
	if last := lastTime(tail); last.After(l.last) && (last.Before(now.Add(maxAhead)) || now.Before(unset)) {
		l.last = last
	}
	return nil
}

func (l *File) readTail(size, n int64) (data []byte, start int64, err error) {
	start = max(0, size-n)
	data = make([]byte, size-start)
	got, err := l.file.ReadAt(data, start)
	if err == io.EOF { // a process without the lock has truncated it
		err = nil
	}
	return data[:got], start, err
}

// repairTail makes the file end in a newline: a complete object that only lacks it gets one, a torn line is cut off. It
// returns the file's size.
func (l *File) repairTail(tail []byte, start int64) (int64, error) {
	end := start + int64(len(tail))
	if len(tail) == 0 || tail[len(tail)-1] == '\n' {
		return end, nil
	}
	cut := bytes.LastIndexByte(tail, '\n') + 1
	if line := tail[cut:]; json.Valid(line) || cut == 0 && start > 0 {
		// The second case is an endless line of another program: end it, readers can skip it.
		_, err := l.file.Write([]byte("\n"))
		return end + 1, err
	}
	return start + int64(cut), l.file.Truncate(start + int64(cut))
}

// lastTime is the instant of the last line in tail that has one.
func lastTime(tail []byte) time.Time {
	for len(tail) > 0 {
		tail = bytes.TrimSuffix(tail, []byte("\n"))
		i := bytes.LastIndexByte(tail, '\n')
		if at, err := protocol.ParseTime(timestampOf(tail[i+1:])); err == nil {
			return at
		}
		tail = tail[:i+1]
	}
	return time.Time{}
}

// timestampOf returns the member timestamp, "" if there is none. In lines of the runtime it is before the payload, and no string
// can contain the text by which it is found.
func timestampOf(line []byte) string {
	envelope, _, ours := bytes.Cut(line, []byte(`,"payload":`))
	if ours && bytes.HasPrefix(line, []byte(`{"protocol_version":"`+protocol.Version+`","event_type":"`)) && json.Valid(line) {
		if _, rest, ok := bytes.Cut(envelope, []byte(`,"timestamp":"`)); ok {
			value, _, _ := bytes.Cut(rest, []byte(`"`))
			return string(value)
		}
	}
	var head struct {
		Timestamp string `json:"timestamp"`
	}
	if json.Unmarshal(line, &head) != nil {
		return ""
	}
	return head.Timestamp
}

// writeLines appends whole lines in one write. A write that came up short (a full disk) is taken back.
func (l *File) writeLines(lines []byte) error {
	if _, err := l.file.Write(lines); err != nil {
		if terr := l.file.Truncate(l.size); terr != nil {
			err = errors.Join(err, fmt.Errorf("take the torn line back: %w", terr))
		}
		l.size = -1
		return fmt.Errorf("%w: the event is not recorded", err)
	}
	l.size += int64(len(lines))
	l.dirty = true
	return nil
}
