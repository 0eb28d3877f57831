// Package boltfile opens and reads the bbolt files of lattice: runs.db and the sprite host's host.db.
// The databases share it. Start at Open, View and Update.
//
// bbolt maps the file and believes it: a damaged page ends the process. So Open looks at the pages first (pages.go), and
// code that can fail later runs in Contain. Check looks at all of a file. The package does not know the content.
//
// A transaction must not wait for anything else. A writer whose file outgrows its mapping waits until every reader has
// ended, and readers that begin in that time wait for that writer; a reader that waits for a lock whose holder wants to read
// thus waits for ever. So no lock is taken inside a transaction, and none begins inside another of the same file. Under
// test both panic: see Lock.
package boltfile

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// mapped is how much of a file is mapped from the start: room in the address space, which costs neither memory nor disk.
// A file outgrows it late, and until then no writer waits for readers.
const mapped = 1 << 30

// growth is by how much a file that is full grows at least.
const growth = 1 << 20

// Why a file is not opened, or cannot be read.
var (
	ErrDamaged = errors.New("the file is damaged")
	ErrHeld    = errors.New("another process has the file open")
)

// Layout is how deep buckets lie in each other. A file of a layout is damaged where a bucket lies deeper.
type Layout int

const (
	Flat   Layout = 1 // no bucket holds another
	Nested Layout = 2 // buckets may hold others, and those hold none; all of such a file is looked at when it is opened
)

// Options of Open.
type Options struct {
	Layout   Layout
	Patience time.Duration // how long another process may hold the file
	ReadOnly bool
	Create   bool // make a file that is not there, and use one that is empty
}

// Open opens a file after it was looked at, under its lock. It fails with ErrHeld or ErrDamaged; a file that is refused was
// not written to.
func Open(path string, o Options) (db *bbolt.DB, err error) {
	options := &bbolt.Options{
		Timeout: o.Patience, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapped, ReadOnly: o.ReadOnly,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			if !o.Create {
				flag &^= os.O_CREATE
			}
			f, err := os.OpenFile(path, flag, mode)
			if err != nil {
				return nil, err
			}
			if err := lockAndLook(f, o); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		},
	}
	err = Contain(func() (err error) {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
		db.AllocSize = growth
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrHeld
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, syscall.EISDIR):
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil, err
}

func lockAndLook(f *os.File, o Options) error {
	if err := lockFile(f, o.Patience, o.ReadOnly); err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() == 0 && o.Create {
		return nil
	}
	var first string
	err := checkPages(f, o.Layout, false, nil, func(format string, args ...any) {
		if first == "" {
			first = fmt.Sprintf(format, args...)
		}
	})
	if err == nil && first != "" {
		err = fmt.Errorf("%w: %s", ErrDamaged, first)
	}
	return err
}

// lockFile takes bbolt's lock before bbolt does.
func lockFile(f *os.File, patience time.Duration, shared bool) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock: %w", err)
		case time.Now().After(deadline):
			return ErrHeld
		}
	}
}

// Progress is told how much of a long work is done, in a unit of the work's own. It may be nil.
type Progress func(done, of uint64)

func (p Progress) report(done, of uint64) {
	if p != nil {
		p(done, of)
	}
}

// Check looks at all pages of a file, which may be too damaged to be opened, and reports their damage. It fails
// with ErrHeld when another process has it open for writing.
func Check(path string, layout Layout, progress Progress, report func(format string, args ...any)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not block on a pipe
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lockFile(f, 0, true); err != nil {
		return err
	}
	return checkPages(f, layout, true, progress, report)
}

// CheckOpen is Check for a file that this process has open, while nothing is written to it. It goes by the path.
func CheckOpen(db *bbolt.DB, layout Layout, progress Progress, report func(format string, args ...any)) error {
	f, err := os.Open(db.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	sound := true
	err = checkPages(f, layout, true, progress, func(format string, args ...any) {
		sound = false
		report(format, args...)
	})
	if err != nil || !sound {
		return err // bbolt does not survive a look at damaged pages
	}
	return Contain(func() error {
		return View(db, func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				report("%v", err)
			}
			return nil
		})
	})
}

// checkPages reports damaged pages of a file.
func checkPages(f *os.File, layout Layout, deep bool, progress Progress, report func(format string, args ...any)) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("look at the file: %w", err)
	case !info.Mode().IsRegular():
		report("it is not a regular file")
	case info.Size() == 0:
		report("the file is empty")
	default:
		return walkPages(f, info.Size(), layout, deep, progress, report)
	}
	return nil
}

// Contain converts panics and memory faults of bbolt, which damaged pages cause, to ErrDamaged.
func Contain(work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		broken := recover()
		if mistake, ours := broken.(Misuse); ours {
			panic(mistake)
		}
		if broken != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, broken)
		}
	}()
	if err = work(); errors.Is(err, bolterrors.ErrIncompatibleValue) { // a record where a bucket should be
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// View runs fn in a read transaction of db.
func View(db *bbolt.DB, fn func(*bbolt.Tx) error) error {
	defer trackTransaction(db)()
	return db.View(fn)
}

// Update runs fn in a write transaction of db.
func Update(db *bbolt.DB, fn func(*bbolt.Tx) error) error {
	defer trackTransaction(db)()
	return db.Update(fn)
}

// CutSlack truncates the space that bbolt has preallocated at the end of a closed file, and syncs the file.
func CutSlack(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r := &pageReader{file: f, report: func(string, ...any) {}}
	m, err := r.newestMeta(info.Size())
	if err != nil {
		return err
	}
	if m != nil {
		err = f.Truncate(int64(m.high) * int64(m.pageSize))
	}
	return errors.Join(err, f.Sync())
}
