package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// TempDir holds files while they are written, on the same file system and hidden: a process that is killed while it writes
// leaves no file that a listing shows or a commit includes. The owner holds a lock on its file or folder. A file without a
// lock belongs to a dead process, and the next writer removes it.
const TempDir = protocol.Dir + "/tmp"

// tempPrefix names temporary files that are next to their target, because TempDir is on another mount.
// TempPattern matches them as .gitignore does.
const (
	tempPrefix  = ".lattice-tmp-"
	TempPattern = tempPrefix + "*"
)

// IsTemp reports whether a path names a temporary file or a file in a temporary folder; listings omit it.
func IsTemp(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, tempPrefix) {
			return true
		}
	}
	return false
}

// temps makes the temporary files of a tree, and once removes those of dead processes.
type temps struct {
	root  *Root
	swept sync.Once
}

// temp is a locked file on its way to another name.
type temp struct {
	file *os.File
	name string // relative to the root
}

// findPlace returns the folder for temporary files that will be renamed into dir, and the prefix of their names.
func (t *temps) findPlace(dir string) (place, prefix string, err error) {
	if t.root.state != nil && !isOwn(dir) { // TempDir lies in another tree
		for dir != "." {
			if _, err := t.root.rootOf(dir).Stat(dir); err == nil {
				break
			}
			dir = path.Dir(dir)
		}
		t.sweepDead(dir, tempPrefix)
		return dir, tempPrefix, nil
	}
	if err := t.root.Runtime().makeDir(TempDir); err != nil {
		return "", "", err
	}
	// Renaming a missing file fails with another error if a mount is in between. Device numbers would not tell: a bind
	// mount has that of the file system it shows.
	nothing := randomName()
	if err := t.root.rootOf(TempDir).Rename(path.Join(TempDir, nothing), path.Join(dir, nothing)); errors.Is(err, syscall.EXDEV) {
		t.sweepDead(dir, tempPrefix)
		return dir, tempPrefix, nil
	}
	t.swept.Do(func() { t.sweepDead(TempDir, "") })
	return TempDir, "", nil
}

// createFile makes a temporary file that can be renamed into dir.
func (t *temps) createFile(dir string) (temp, error) {
	place, prefix, err := t.findPlace(dir)
	if err != nil {
		return temp{}, err
	}
	for {
		name := path.Join(place, prefix+randomName())
		f, err := t.root.rootOf(name).OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return temp{}, t.root.explainError(err)
		}
		owned, err := t.lockNew(f, name)
		if owned {
			return temp{f, name}, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return temp{}, err
		}
	}
}

// Scratch makes an empty folder that can be renamed into the folder into, and returns its absolute path. release removes
// it with all it holds, unless it was renamed, and must be called.
func (r *Root) Scratch(into string) (dir string, release func(), err error) {
	rel, err := r.Rel(into)
	if err != nil {
		return "", nil, err
	}
	place, prefix, err := r.temps.findPlace(rel)
	if err != nil {
		return "", nil, err
	}
	for {
		name := path.Join(place, prefix+randomName())
		if err := r.rootOf(name).Mkdir(name, 0o755); err != nil {
			return "", nil, r.explainError(err)
		}
		d, err := r.rootOf(name).Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a sweep was faster
		}
		if err != nil {
			return "", nil, r.explainError(err)
		}
		owned, err := r.temps.lockNew(d, name)
		if owned {
			// The next sweep removes the rest.
			release := func() { r.rootOf(name).RemoveAll(name); d.Close() }
			return r.Own(name), release, nil
		}
		if err = errors.Join(err, d.Close()); err != nil {
			return "", nil, err
		}
	}
}

// lockNew locks a new file or folder. It reports false when a sweep was faster, which took it away.
func (t *temps) lockNew(f *os.File, name string) (bool, error) {
	// Only a sweep can hold it, and only for a moment.
	if err := Lock(context.Background(), f, time.Millisecond); err != nil {
		return false, fmt.Errorf("lock a temporary file: %w", err)
	}
	_, still, err := t.root.StillNamed(f, name)
	return still, err
}

// sweepDead removes temporary files of dead processes. Failures are ignored; the next sweep tries again.
func (t *temps) sweepDead(place, prefix string) {
	entries, err := t.root.List(place)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() && !e.IsDir() {
			continue // of another user, or planted; it is not opened
		}
		name := path.Join(place, e.Name())
		f, err := t.root.rootOf(name).OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			t.root.rootOf(name).RemoveAll(name)
		}
		f.Close()
	}
}

// randomName returns a name that is probably unused; O_EXCL ensures it.
func randomName() string { return strconv.FormatUint(rand.Uint64(), 36) }
