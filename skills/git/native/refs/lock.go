package refs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// ErrLocked says that somebody holds a lock; trying again later helps.
var ErrLocked = errors.New("locked")

// Lock is a lock as git takes it: NAME.lock, made exclusively, which becomes NAME when it is committed. Whoever reads
// NAME sees the old or the new content and nothing between.
type Lock struct {
	root *os.Root
	name string
	f    *os.File
}

// Acquire takes the lock of a file below root. Folders on the way are made.
func Acquire(root *os.Root, name string) (*Lock, error) {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	f, err := root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s.lock is held by another git", ErrLocked, name)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{root, name, f}, nil
}

// Write makes data what the file will hold, durably; it is written once.
func (l *Lock) Write(data []byte) error {
	_, err := l.f.Write(data)
	if err = errors.Join(err, l.f.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	return nil
}

// Commit makes what was written the content of the file, and gives the lock back.
func (l *Lock) Commit() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	if err := l.root.Rename(l.name+".lock", l.name); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	l.f = nil
	return nil
}

// Replace is Write and Commit.
func (l *Lock) Replace(data []byte) error {
	if err := l.Write(data); err != nil {
		return errors.Join(err, l.Release())
	}
	return l.Commit()
}

// Release gives the lock back and changes nothing. After Commit it does nothing.
func (l *Lock) Release() error {
	if l.f == nil {
		return nil
	}
	l.f.Close() // it goes, whatever that says
	l.f = nil
	return l.root.Remove(l.name + ".lock")
}
