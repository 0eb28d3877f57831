// Package walk walks a tree of the workspace with several workers and skips files that git ignores. Begin with Tree.
//
// It follows no symlink, so that it ends, and opens nothing but folders and, on request, regular files: a FIFO or device
// never blocks it, also not one that takes the place of a file at the wrong moment. The runtime's .lattice and every .git
// are left out. Memory is bounded by the folders that wait for their turn, not by the number of files; the order in which
// files come is not defined; a caller that needs one must sort.
package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spritekit/lattice/skills/ignore"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Options select the files that are visited.
type Options struct {
	Hidden  bool                  // visit names that begin with a dot
	Ignored bool                  // visit files that git ignores
	Enter   func(dir string) bool // reports whether a folder is worth entering; nil for all. Called by all workers
}

// Entry is a file, folder, symlink or something special. It is valid during the visit.
type Entry struct {
	Path string      // relative to the workspace
	Type fs.FileMode // type bits

	folder *folder
	name   string
	root   *workspace.Root
}

// MaxWorkers bounds the result of Workers, and thus the buffers of callers that keep one for each worker.
const MaxWorkers = 8

// Workers is how many workers a walk has.
func Workers() int { return min(runtime.NumCPU(), MaxWorkers) }

// Tree visits all that lies in the folder start, at any depth. visit is called by Workers() workers at the same time,
// each with its own number; its first error ends the walk and is returned. Folders that cannot be read are left out and
// counted in skipped; only start itself has to be readable.
func Tree(ctx context.Context, root *workspace.Root, start string, o Options, visit func(worker int, e *Entry) error) (skipped int, err error) {
	t := &tree{root: root, options: o, visit: visit}
	t.wake.L = &t.mu
	var rules *ignore.Rules
	if !o.Ignored {
		rules = rulesAbove(root, start)
	}
	first, err := t.openFolder(start, rules)
	if err != nil {
		return 0, err
	}
	first.refs.Store(1)
	t.pushTask(task{folder: first})
	stop := context.AfterFunc(ctx, func() { t.keepError(context.Cause(ctx)) })
	defer stop()
	var group sync.WaitGroup
	for worker := range Workers() {
		group.Go(func() { t.runWorker(worker) })
	}
	group.Wait()
	for _, left := range t.tasks { // after an error
		left.folder.closeUnused()
	}
	return int(t.skipped.Load()), t.err
}

type tree struct {
	root    *workspace.Root
	options Options
	visit   func(int, *Entry) error
	skipped atomic.Int64
	stopped atomic.Bool

	mu      sync.Mutex // guards the fields below
	wake    sync.Cond
	tasks   []task // a stack, so that a walk goes deep first and few folders wait
	running int
	err     error
}

// task is a folder to list, or some of its entries.
type task struct {
	folder  *folder
	path    string        // of a folder that is not open yet
	rules   *ignore.Rules // that hold in its parent
	entries []dirent      // nil: list it
}

// folder is an open folder, closed when the last task that needs it is done.
type folder struct {
	file  *os.File
	fd    uintptr // of file
	path  string
	rules *ignore.Rules
	refs  atomic.Int32

	buffer []byte // of the worker that lists it
}

func (f *folder) closeUnused() {
	if f != nil && f.refs.Add(-1) == 0 {
		f.file.Close()
	}
}

func (t *tree) pushTask(next task) {
	t.mu.Lock()
	t.tasks = append(t.tasks, next)
	t.mu.Unlock()
	t.wake.Signal()
}

// isIdle reports whether a worker waits for a task.
func (t *tree) isIdle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tasks) == 0 && t.running < Workers()
}

func (t *tree) keepError(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
	t.stopped.Store(true)
	t.wake.Broadcast()
}

// nextTask waits for a task; there is none when all work is done or failed.
func (t *tree) nextTask() (task, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.tasks) == 0 && t.running > 0 && t.err == nil {
		t.wake.Wait()
	}
	if len(t.tasks) == 0 || t.err != nil {
		t.wake.Broadcast()
		return task{}, false
	}
	last := len(t.tasks) - 1
	got := t.tasks[last]
	t.tasks = t.tasks[:last]
	t.running++
	return got, true
}

func (t *tree) runWorker(worker int) {
	for {
		got, ok := t.nextTask()
		if !ok {
			return
		}
		if err := t.runTask(worker, got); err != nil {
			t.keepError(err)
		}
		t.mu.Lock()
		t.running--
		done := t.running == 0
		t.mu.Unlock()
		if done {
			t.wake.Broadcast()
		}
	}
}

func (t *tree) runTask(worker int, got task) error {
	f := got.folder
	if f == nil {
		var err error
		if f, err = t.openFolder(got.path, got.rules); err != nil {
			t.skipped.Add(1)
			return nil
		}
		f.refs.Store(1)
	}
	defer f.closeUnused()
	if got.entries != nil {
		return t.visitEntries(worker, f, got.entries)
	}
	for !t.stopped.Load() {
		entries, err := f.listEntries(t.root)
		if len(entries) >= shared && t.isIdle() {
			f.refs.Add(1)
			t.pushTask(task{folder: f, entries: entries})
			entries = nil
		}
		if verr := t.visitEntries(worker, f, entries); verr != nil {
			return verr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			t.skipped.Add(1)
			return nil
		}
	}
	return nil
}

// dirent is a name in a folder.
type dirent struct {
	name string
	kind fs.FileMode // type bits
}

// shared is how many entries are worth being left to another worker.
const shared = 64

func (t *tree) visitEntries(worker int, f *folder, entries []dirent) error {
	for _, d := range entries {
		if t.stopped.Load() {
			return nil
		}
		name := d.name
		if !t.options.Hidden && name[0] == '.' || name == ".git" {
			continue
		}
		e := Entry{Path: joinPath(f.path, name), Type: d.kind, folder: f, name: name, root: t.root}
		if e.Path == protocol.Dir || workspace.IsTemp(name) || f.rules.Match(e.Path, d.kind.IsDir()) {
			continue
		}
		if err := t.visit(worker, &e); err != nil {
			return err
		}
		if d.kind.IsDir() && (t.options.Enter == nil || t.options.Enter(e.Path)) {
			t.pushTask(task{path: e.Path, rules: f.rules})
		}
	}
	return nil
}

func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// openFolder opens a folder and reads its ignore file.
func (t *tree) openFolder(dir string, rules *ignore.Rules) (*folder, error) {
	d, err := t.root.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{file: d, fd: d.Fd(), path: dir}
	if !t.options.Ignored {
		f.rules = rulesInside(rules, dir, t.root, func(name string) bool { return f.hasFile(t.root, name) }, func() []byte {
			file, err := f.openFile(t.root, ignore.File)
			if err != nil {
				return nil
			}
			defer file.Close()
			return readSmall(file, file.Size())
		})
	}
	return f, nil
}

// rulesAbove collects the rules that hold in the folder that holds start.
func rulesAbove(root *workspace.Root, start string) (rules *ignore.Rules) {
	if start == "." {
		return nil
	}
	dir := "."
	for part := range strings.SplitSeq(start, "/") {
		rules = rulesInside(rules, dir, root, func(name string) bool {
			_, err := root.Lstat(joinPath(dir, name))
			return err == nil
		}, func() []byte { return readRules(root, joinPath(dir, ignore.File)) })
		dir = joinPath(dir, part)
	}
	return rules
}

// rulesInside returns the rules within dir. A repository starts with no rules: git ignores those of its surroundings.
func rulesInside(rules *ignore.Rules, dir string, root *workspace.Root, has func(string) bool, gitignore func() []byte) *ignore.Rules {
	if has(".git") {
		rules = (*ignore.Rules)(nil).With(dir, readRules(root, joinPath(dir, ".git/info/exclude")))
	}
	return rules.With(dir, gitignore())
}

// readRules reads a file of patterns, which like git it does only when it is no symlink.
func readRules(root *workspace.Root, name string) []byte {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	return readSmall(f, info.Size())
}

func readSmall(r io.Reader, size int64) []byte {
	if size > ignore.MaxFile {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r, ignore.MaxFile))
	if err != nil {
		return nil
	}
	return data
}

// Open opens the file of an entry. It fails with ErrSpecial when the entry is no regular file, or is no longer.
func (e *Entry) Open() (*File, error) {
	if !e.Type.IsRegular() {
		return nil, ErrSpecial
	}
	return e.folder.openFile(e.root, e.name)
}

// Lstat describes the entry as it is now.
func (e *Entry) Lstat() (fs.FileInfo, error) { return e.root.Lstat(e.Path) }

// ErrSpecial is returned for a file that is not regular.
var ErrSpecial = errors.New("not a regular file")
