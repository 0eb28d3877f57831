package board

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The entries of .lattice that belong to a board. Locks, the queue and logs are left out of git by a .gitignore.
const (
	configFile = protocol.Dir + "/config.json"
	eventsDir  = protocol.Dir + "/events"
	tasksDir   = protocol.Dir + "/tasks" // folds, for readers that do not fold
	locksDir   = protocol.Dir + "/locks"
	logsDir    = protocol.Dir + "/logs/workers"
	ignoreFile = protocol.Dir + "/.gitignore"
)

// maxConfig bounds config.json, in bytes.
const maxConfig = 1 << 20

// lockWait is the time after which a writer gives up on others.
const lockWait = 10 * time.Second

// Board is the open board of a repository. Its methods may be called by several processes at once.
type Board struct {
	Root   string // the folder that holds .lattice
	Config Config
	root   *os.Root // links that lead out of the repository are not followed
	// Writers of this process share commits.
	commits commits
	// Warn is told about damaged lines. They are skipped.
	Warn func(text string)
}

// Find returns the nearest folder with a board: dir or a folder above it.
func Find(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, configFile)); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fault.NotFound("no_board", "neither %s nor a folder above it has a board", dir).WithHint("lattice task init")
		}
	}
}

// OpenNearest opens the board of a folder; of "", the board nearest to the working directory. The caller closes it.
func OpenNearest(dir string) (*Board, error) {
	if dir == "" {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		if dir, err = Find(here); err != nil {
			return nil, err
		}
	}
	return Open(dir)
}

// Open opens the board of a folder. The caller closes it.
func Open(dir string) (*Board, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the board: %w", err)
	}
	text, err := readSmall(root, configFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.NotFound("no_board", "%s has no board", dir).WithHint("lattice task init")
	}
	var c Config
	if err == nil {
		c, err = parseConfig(text)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Board{Root: dir, Config: c, root: root, commits: commits{sync: (*os.File).Sync}, Warn: func(string) {}}, nil
}

// Close closes the board.
func (b *Board) Close() error { return b.root.Close() }

func readSmall(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fault.Limit("board_config", "%s has more than %d bytes", name, maxConfig)
	}
	return text, err
}

// Init makes a board in a folder.
func Init(dir string, c Config) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(configFile); err == nil {
		return fault.BadInput("board_exists", "%s has a board", dir).WithHint("edit %s", configFile)
	}
	for _, name := range []string{eventsDir, tasksDir, locksDir} {
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := root.WriteFile(ignoreFile, []byte("# Events, tasks, workers and config.json belong to the repository.\n/locks/\n/logs/\n/queue/\n"), 0o644); err != nil {
		return err
	}
	return errors.Join(replaceFile(root, configFile, append(text, '\n'), (*os.File).Sync), syncDir(root, protocol.Dir))
}

// unsynced leaves it to the system when a file is synced.
func unsynced(*os.File) error { return nil }

// replaceFile replaces a file by one that sync syncs. After a loss of power it is the old or the new one; of a file that did not exist,
// the caller syncs the folder.
func replaceFile(root *os.Root, name string, text []byte, sync func(*os.File) error) error {
	temp := name + ".tmp"
	f, err := openMade(root, temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, sync(f), f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	return err
}

// openMade opens a file, and makes the folders above it if they are missing.
func openMade(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags, 0o644)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return root.OpenFile(name, flags, 0o644)
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return durable.CloseDir(d)
}

// Tasks folds every task, the oldest first.
func (b *Board) Tasks() ([]*Task, error) { return b.foldAll(nil) }

// TasksKnowing is Tasks with the events of each task, by its id.
func (b *Board) TasksKnowing() (tasks []*Task, past map[string][]Event, err error) {
	past = map[string][]Event{}
	tasks, err = b.foldAll(func(e Event) { past[e.TaskID] = append(past[e.TaskID], e) })
	return tasks, past, err
}

func (b *Board) foldAll(each func(Event)) ([]*Task, error) {
	entries, err := fs.ReadDir(b.root.FS(), eventsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the tasks: %w", err)
	}
	var tasks []*Task
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if name := strings.TrimPrefix(id, "task_"); !ok || name == id || !consistsOf(name, letters+digits) {
			continue
		}
		t, err := b.fold(id, each)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Or(compareTimes(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return tasks, nil
}

// fold reads the events of a task. It passes those that fit to each, which may be nil.
func (b *Board) fold(id string, each func(Event)) (*Task, error) {
	name := path.Join(eventsDir, id+".jsonl")
	f, err := b.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", id, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.Unsafe("unsafe_path", "%s is not a regular file", name)
	}
	t := NewTask(id)
	problems, err := ReadEvents(f, func(e Event) error {
		err := t.Apply(e)
		if err == nil && each != nil {
			each(e)
		}
		return err
	})
	for _, p := range problems {
		b.Warn(fmt.Sprintf("%s: %s; it is skipped", name, p))
	}
	return t, err
}

// History returns a task's events.
func (b *Board) History(id string) (events []Event, err error) {
	_, err = b.fold(id, func(e Event) { events = append(events, e) })
	return events, err
}

// Resolve returns the task of a short id, an id, or the beginning of an id that only one task has.
func (b *Board) Resolve(name string) (*Task, error) {
	if id := strings.TrimPrefix(name, "task_"); id != name && consistsOf(id, letters+digits) {
		if t, err := b.fold(name, nil); !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	tasks, err := b.Tasks()
	if err != nil {
		return nil, err
	}
	var found []*Task
	for _, t := range tasks {
		switch {
		case t.ID == name, name != "" && strings.EqualFold(t.ShortID, name):
			return t, nil
		case strings.HasPrefix(t.ID, name) && len(name) > len("task_"):
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fault.NotFound("task_not_found", "the board has no task %s", name).WithHint("lattice task ls")
	}
	return nil, fault.BadInput("task_ambiguous", "%d tasks begin with %s", len(found), name).WithHint("lattice task ls")
}

// Change is an event that a writer wants to append.
type Change struct {
	Type string
	Data any
}

// New is a task that a writer wants to create.
type New struct {
	ID string // task_ULID, "" for a new one
	CreatedData
}

// Create appends the first events of a new task. With an id of a task that exists it changes nothing and returns that task,
// so that a caller can repeat a creation whose outcome was lost. It refuses a task that the rules of the board forbid.
func (b *Board) Create(ctx context.Context, actor, id string, d CreatedData) (*Task, []Event, error) {
	tasks, events, err := b.CreateAll(ctx, actor, []New{{id, d}})
	if err != nil {
		return nil, events, err
	}
	return tasks[0], events, nil
}

// CreateAll is Create for several tasks, which no other writer comes between. It stops at the first that is refused.
func (b *Board) CreateAll(ctx context.Context, actor string, list []New) (made []*Task, all []Event, err error) {
	err = b.locked(ctx, func() error {
		tasks, err := b.Tasks()
		if err != nil {
			return err
		}
		number := lastNumber(tasks, b.Config.ProjectCode)
		for _, n := range list {
			if i := slices.IndexFunc(tasks, func(t *Task) bool { return t.ID == n.ID }); i >= 0 {
				made = append(made, tasks[i])
				continue
			}
			if err := b.Config.completeNew(&n.CreatedData, n.ID); err != nil {
				return err
			}
			if number++; b.Config.ProjectCode != "" {
				n.ShortID = fmt.Sprintf("%s-%d", b.Config.ProjectCode, number)
			}
			t := NewTask(cmp.Or(n.ID, "task_"+ulid.Make().String()))
			events, err := b.append(t, actor, []Change{{TaskCreated, n.CreatedData}})
			if err != nil {
				return err
			}
			made, all, tasks = append(made, t), append(all, events...), append(tasks, t)
		}
		return nil
	})
	return made, all, err
}

// lastNumber returns the largest number of the short ids with a code. It leaves out numbers that no board reaches, to which
// one could not be added.
func lastNumber(tasks []*Task, code string) (last int) {
	const maxDigits = 15
	for _, t := range tasks {
		if text, ok := strings.CutPrefix(t.ShortID, code+"-"); ok && len(text) <= maxDigits {
			if n, err := strconv.Atoi(text); err == nil {
				last = max(last, n)
			}
		}
	}
	return last
}

// Update appends the events that decide returns for a task as it is now. No other writer comes between.
func (b *Board) Update(ctx context.Context, id, actor string, decide func(*Task) ([]Change, error)) (*Task, []Event, error) {
	return b.UpdateKnowing(ctx, id, actor, func(t *Task, _ []Event) ([]Change, error) { return decide(t) })
}

// UpdateKnowing is Update with the task's events so far.
func (b *Board) UpdateKnowing(ctx context.Context, id, actor string, decide func(*Task, []Event) ([]Change, error)) (*Task, []Event, error) {
	var t *Task
	var events []Event
	err := b.locked(ctx, func() (err error) {
		var past []Event
		if t, err = b.fold(id, func(e Event) { past = append(past, e) }); err != nil {
			return err
		}
		changes, err := decide(t, past)
		if err != nil {
			return err
		}
		events, err = b.append(t, actor, changes)
		return err
	})
	return t, events, err
}

// Claim assigns the next task of the statuses to the actor and moves it to in_progress. It returns nil if none is left.
func (b *Board) Claim(ctx context.Context, actor string, statuses []string) (*Task, []Event, error) {
	var t *Task
	var events []Event
	err := b.locked(ctx, func() error {
		tasks, err := b.Tasks()
		if err != nil {
			return err
		}
		if t = b.Config.ChooseNext(tasks, actor, statuses); t == nil {
			return nil
		}
		var changes []Change
		if from := t.AssignedTo; from != actor {
			changes = append(changes, Change{AssignmentChanged, ChangeData{From: &from, To: actor}})
		}
		if from := t.Status; from != "in_progress" {
			if err := b.Config.CheckMove(t, "in_progress"); err != nil {
				return err
			}
			changes = append(changes, Change{StatusChanged, ChangeData{From: &from, To: "in_progress"}})
		}
		events, err = b.append(t, actor, changes)
		return err
	})
	return t, events, err
}

// Exclusive calls do while no other process is in a call with the same name. It waits for ten seconds at most.
func (b *Board) Exclusive(ctx context.Context, name string, do func() error) error {
	lockFile := path.Join(locksDir, name+".lock")
	f, err := openMade(b.root, lockFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("lock the board: %w", err)
	}
	defer f.Close() // ends the lock
	for deadline := time.Now().Add(lockWait); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return do()
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return fmt.Errorf("lock the board: %w", err)
		}
		if time.Now().After(deadline) {
			return fault.Busy("board_busy", "another process has held %s for %s", filepath.Join(b.Root, lockFile), lockWait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// append appends the changes as events and applies them. It is called in [Board.locked], which makes the events durable. The copy of the
// task follows from them, and is not synced.
func (b *Board) append(t *Task, actor string, changes []Change) ([]Event, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var lines bytes.Buffer
	var events []Event
	for _, c := range changes {
		data, err := json.Marshal(c.Data)
		if err != nil {
			return nil, err
		}
		e := Event{SchemaVersion: 1, ID: "ev_" + ulid.Make().String(), TS: time.Now().UTC().Format(time.RFC3339Nano), Type: c.Type, TaskID: t.ID, Actor: actor, Data: data}
		if err := t.Apply(e); err != nil {
			return nil, fmt.Errorf("the event %s %w", e.Type, err)
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if len(line) >= MaxLine {
			return nil, fault.Limit("event_too_large", "the event has more than %d bytes", MaxLine).WithHint("put large text into a file, and attach it")
		}
		lines.Write(append(line, '\n'))
		events = append(events, e)
	}
	if err := b.appendLines(t.ID, lines.Bytes()); err != nil {
		return nil, fmt.Errorf("write the events of %s: %w", t.ID, err)
	}
	text, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = replaceFile(b.root, path.Join(tasksDir, t.ID+".json"), append(text, '\n'), unsynced)
	}
	if err != nil {
		b.Warn(fmt.Sprintf("the events of %s are written; its copy in %s is not: %v", t.ID, tasksDir, err))
	}
	return events, nil
}

// appendLines appends whole lines to the file of a task, which the commit syncs. A line that a killed writer cut off stays a line of its
// own.
func (b *Board) appendLines(id string, lines []byte) (err error) {
	name := path.Join(eventsDir, id+".jsonl")
	f, err := openMade(b.root, name, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	b.commits.grown[name] = b.commits.grown[name] || size == 0
	_, err = f.Write(lines)
	return err
}

// Task folds one task.
func (b *Board) Task(id string) (*Task, error) { return b.fold(id, nil) }
