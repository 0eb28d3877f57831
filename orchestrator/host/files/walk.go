package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// sorted is how many names of one folder are held to be put in order. Of a larger folder each batch is.
	sorted = 16 << 10
	// held is how many names a walk holds in all; beyond it batches are small. The depth of a tree is bounded by the length
	// of names, and so is the whole.
	held  = 128 << 10
	batch = 128
)

// walker goes through the tree below top.
type walker struct {
	ctx  context.Context
	t    Tree
	top  string
	emit Emit
	held int // names
}

// eachName calls do with the names in a folder, batch by batch until it is empty of new ones.
func (w *walker) eachName(dir string, do func(name string) error) error {
	f, err := w.t.Open(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(min(sorted, max(batch, held-w.held)))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		slices.Sort(names)
		w.held += len(names)
		for _, n := range names {
			if err = w.ctx.Err(); err == nil {
				err = do(path.Join(dir, n))
			}
			if err != nil {
				break
			}
		}
		w.held -= len(names)
		if err != nil {
			return err
		}
	}
}

// emitEntry emits the entry of name.
func (w *walker) emitEntry(name string, st fs.FileInfo) error {
	return w.emit(Entry{Rel: strings.TrimPrefix(strings.TrimPrefix(name, w.top), "/"), Mode: st.Mode(), Size: st.Size(), ModTime: st.ModTime()})
}

func (w *walker) listFolder(pattern string, recursive bool) error {
	st, err := w.t.Stat(w.top)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return w.emitEntry(w.top, st)
	}
	return w.listIn(w.top, pattern, recursive)
}

func (w *walker) listIn(dir, pattern string, recursive bool) error {
	return w.eachName(dir, func(name string) error {
		st, err := w.t.Lstat(name)
		if err != nil {
			return nil // was removed since
		}
		if w.matchesPattern(pattern, name) {
			if err := w.emitEntry(name, st); err != nil {
				return err
			}
		}
		if !recursive || !st.IsDir() {
			return nil
		}
		return ignoreFolder(w.listIn(name, pattern, recursive))
	})
}

// ignoreFolder passes over a folder that cannot be read, or is gone: the rest of the tree can.
func ignoreFolder(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENAMETOOLONG) {
		return nil
	}
	return err
}

func (w *walker) matchesPattern(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, _ := path.Match(pattern, path.Base(name)) // the pattern has been checked
	if !ok && strings.Contains(pattern, "/") {
		ok, _ = path.Match(pattern, strings.TrimPrefix(strings.TrimPrefix(name, w.top), "/"))
	}
	return ok
}

func (w *walker) removeEntry(recursive bool) error {
	st, err := w.t.Lstat(w.top)
	if err != nil {
		return err
	}
	if w.top == "/" {
		return syscall.EPERM
	}
	// Checked first, so that a folder that cannot be removed does not lose its entries.
	if err := w.t.Writable(path.Dir(w.top)); err != nil {
		return err
	}
	return w.removeOne(w.top, st, recursive)
}

func (w *walker) removeOne(name string, st fs.FileInfo, recursive bool) error {
	if st.IsDir() && recursive {
		err := w.removeIn(name)
		if errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EMFILE) {
			err = w.t.RemoveAll(name)
			if err == nil {
				return w.emitEntry(name, st)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := w.t.Remove(name); err != nil {
		return err
	}
	return w.emitEntry(name, st)
}

func (w *walker) removeIn(dir string) error {
	return w.eachName(dir, func(name string) error {
		st, err := w.t.Lstat(name)
		if err == nil {
			err = w.removeOne(name, st, true)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process removed it first
		}
		return err
	})
}

// changeEntries calls do for a file and, with recursive, for all entries below a folder. It skips links below the folder, and follows
// a link at the end of the path itself.
func (w *walker) changeEntries(recursive bool, do func(name string) error) error {
	real, err := w.t.Real(w.top)
	if err != nil {
		return err
	}
	if _, err := w.t.Lstat(real); err != nil {
		return err
	}
	w.top = real
	return w.changeOne(real, recursive, do)
}

func (w *walker) changeOne(name string, recursive bool, do func(name string) error) error {
	st, err := w.t.Lstat(name)
	if err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	if err := do(name); err != nil {
		return err
	}
	if st.IsDir() && recursive {
		err := w.eachName(name, func(name string) error {
			if err := w.changeOne(name, true, do); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if st, err = w.t.Lstat(name); err != nil {
		return err
	}
	return w.emitEntry(name, st)
}

// parseOwner reads the user and the group that Chown is to give.
func parseOwner(t Tree, op Op) (uid, gid int, err error) {
	if uid, err = parseID(op.User, t.User); err != nil {
		return 0, 0, err
	}
	if gid, err = parseID(op.Group, t.Group); err != nil {
		return 0, 0, err
	}
	if uid < 0 && gid < 0 {
		return 0, 0, syscall.EINVAL
	}
	return uid, gid, nil
}

func parseID(text string, find func(string) (int, error)) (int, error) {
	if text == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return int(n), nil
	}
	return find(text)
}

func tempBeside(name string) string {
	return path.Join(path.Dir(name), ".upload-"+rand.Text())
}
