// Package outbox is the durable record of a sprite's events: /workspace/.lattice/outbox.jsonl, one JSON object per
// line. Look at Log first.
//
// Many processes append to one outbox, so every append holds a lock on the file, stamps the event under that lock with
// an instant later than the last line's (even when the clock went backwards), and is one write. Durable event types
// are fsynced before Append returns, hence before anyone shows them on stdout (DESIGN 8); INFO and PHASE_* ride along
// with the next durable line or Sync. A line torn by a crash is repaired before the next one is appended.
//
// Other programs in the sprite can write the file too: nothing in it is trusted, only its last timestamp is read, and
// one that lies too far ahead is ignored.
package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	// tailSize is how much of the file's end is read to find the last line's time. Lines are shorter than 1 MiB.
	tailSize = 64 << 10
	// maxAhead is how far the last line's time may lie ahead of the clock and still be followed. A planted line of
	// the year 9999 would otherwise push every later event there.
	maxAhead = 24 * time.Hour
)

// Stamp is what the runtime puts on every event of a call.
type Stamp struct {
	SpriteID   string
	WorkItemID string
	CallID     string // "" for events of no call
}

// Log appends events to one outbox. Its methods may be called concurrently.
type Log struct {
	root  *workspace.Root
	stamp Stamp
	now   func() time.Time

	mu    sync.Mutex // guards what follows
	file  *os.File
	dirty bool // written since the last fsync
	// size and last let an append skip reading the tail when nobody else wrote meanwhile.
	size int64
	last time.Time
}

// Open opens the outbox of a workspace, makes it where it is missing and repairs a torn last line.
func Open(root *workspace.Root, stamp Stamp, now func() time.Time) (*Log, error) {
	l := &Log{root: root, stamp: stamp, now: now}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	unlock, err := l.lock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open outbox: %w", err), l.file.Close())
	}
	defer unlock()
	if err := l.catchUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("open outbox: %w", err), l.file.Close())
	}
	return l, nil
}

// Append stamps p, appends it and returns the event with its line in Raw. A payload above protocol.SpillAt is spilled to a
// file first. When Append fails, nothing of the event is in the file.
func (l *Log) Append(p protocol.Payload) (protocol.Event, error) {
	p, err := spill(l.root, p)
	if err != nil {
		return protocol.Event{}, err
	}
	e, err := protocol.New(p)
	if err != nil {
		return protocol.Event{}, fmt.Errorf("append to outbox: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.lock()
	if err != nil {
		return protocol.Event{}, fmt.Errorf("append to outbox: %w", err)
	}
	defer unlock()
	if err := l.catchUp(); err != nil {
		return protocol.Event{}, fmt.Errorf("append to outbox: %w", err)
	}
	at := l.now().UTC()
	if !at.After(l.last) {
		at = l.last.Add(time.Nanosecond)
	}
	e.EventID, e.Timestamp = NewID(at), protocol.FormatTime(at)
	e.SpriteID, e.WorkItemID, e.CallID = l.stamp.SpriteID, l.stamp.WorkItemID, l.stamp.CallID
	if e.Raw, err = protocol.Encode(e); err != nil {
		return protocol.Event{}, fmt.Errorf("append to outbox: %w", err)
	}
	if err := l.write(e.Raw); err != nil {
		return protocol.Event{}, fmt.Errorf("append to outbox: %w", err)
	}
	l.last = at
	if durable(p) {
		if err := l.sync(); err != nil {
			return protocol.Event{}, err
		}
	}
	return e, nil
}

// durable reports whether p must be on disk before anyone sees it. Results are INFO; the runtime syncs them itself
// where they matter.
func durable(p protocol.Payload) bool {
	switch p.EventType() {
	case protocol.TypeActionRequest, protocol.TypeWaiting, protocol.TypeCompleted, protocol.TypeError,
		protocol.TypeArtifact, protocol.TypeEnvironmentProposal:
		return true
	}
	return false
}

// Sync makes everything appended so far durable.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sync()
}

func (l *Log) sync() error {
	if !l.dirty {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync outbox: %w", err)
	}
	l.dirty = false
	return nil
}

// Close releases the file; what was not synced is left to the system.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

func (l *Log) open() error {
	if err := l.root.MkdirAll(protocol.Dir); err != nil {
		return err
	}
	_, err := l.root.Lstat(protocol.OutboxFile)
	missing := errors.Is(err, fs.ErrNotExist)
	f, err := l.root.OpenFile(protocol.OutboxFile, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if missing {
		if err := l.root.SyncDir(protocol.Dir); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	l.file, l.size, l.last = f, -1, time.Time{}
	return nil
}

// lock takes the file's lock. When the file was removed meanwhile (a skill may clean the workspace), it is made anew:
// events must not go to a file that has no name.
func (l *Log) lock() (unlock func(), err error) {
	for {
		f := l.file
		if err := flock(f, syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, flock(f, syscall.LOCK_UN))
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Nlink > 0 {
			return func() { flock(f, syscall.LOCK_UN) }, nil // closing the file would unlock it as well
		}
		if err := errors.Join(f.Close(), l.open()); err != nil {
			return nil, err
		}
	}
}

// flock waits for other appends only, each of which is short.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// catchUp repairs the tail and learns the last line's time, when somebody else wrote since the last append.
func (l *Log) catchUp() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == l.size {
		return nil
	}
	tail, start, err := l.tail(info.Size(), tailSize)
	if err == nil && start > 0 && bytes.Count(tail, []byte("\n")) < 2 {
		tail, start, err = l.tail(info.Size(), protocol.MaxLine)
	}
	if err != nil {
		return err
	}
	size, err := l.repair(tail, start)
	if err != nil {
		return fmt.Errorf("repair torn line: %w", err)
	}
	l.size = size
	if last := lastTime(tail); last.After(l.last) && last.Before(l.now().Add(maxAhead)) {
		l.last = last
	}
	return nil
}

func (l *Log) tail(size, n int64) (data []byte, start int64, err error) {
	start = max(0, size-n)
	data, err = io.ReadAll(io.NewSectionReader(l.file, start, size-start))
	return data, start, err
}

// repair makes the file end in a newline: a complete object that only lacks it gets one, a torn line is cut off. It
// returns the file's size.
func (l *Log) repair(tail []byte, start int64) (int64, error) {
	end := start + int64(len(tail))
	if len(tail) == 0 || tail[len(tail)-1] == '\n' {
		return end, nil
	}
	cut := bytes.LastIndexByte(tail, '\n') + 1
	if line := tail[cut:]; json.Valid(line) || cut == 0 && start > 0 {
		// The second case is an endless line of somebody else: end it, readers know how to skip it.
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
		var head struct {
			Timestamp string `json:"timestamp"`
		}
		if json.Unmarshal(tail[i+1:], &head) == nil {
			if at, err := protocol.ParseTime(head.Timestamp); err == nil {
				return at
			}
		}
		tail = tail[:i+1]
	}
	return time.Time{}
}

// write appends one line in one write. A write that came up short (a full disk) is taken back.
func (l *Log) write(line []byte) error {
	if _, err := l.file.Write(append(line[:len(line):len(line)], '\n')); err != nil {
		if terr := l.file.Truncate(l.size); terr != nil {
			err = errors.Join(err, fmt.Errorf("take the torn line back: %w", terr))
		}
		l.size = -1
		if errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("%w: the event is not recorded; free space in the workspace", err)
		}
		return err
	}
	l.size += int64(len(line)) + 1
	l.dirty = true
	return nil
}
