// Package bolt is the driver of the store for one bbolt file, which one process has open for writing. Start with Open.
//
// bbolt maps the file and trusts it. So the file is looked at before it is opened, and panics that a damaged page causes become
// kv.ErrDamaged. After a failed commit the file is closed and opened again, because neither the memory of bbolt nor the page cache of
// the kernel can be trusted to be the content of the disk then.
package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/store/kv"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Options of Open.
type Options struct {
	ReadOnly bool
	// Prepare is called whenever the file was opened, before anything else uses it. An error closes it again.
	Prepare func(kv.Session) error
}

// File is an open file (kv.DB).
type File struct {
	path    string
	options Options

	mu    sync.RWMutex // guards the fields below: readers share db, closing and opening again is exclusive
	db    *bbolt.DB    // nil while it could not be opened again
	cause error        // why db is nil
}

// patience is how long another process may hold the file, reopenPatience how long a lock may take that a moment ago was ours.
const (
	patience       = 200 * time.Millisecond
	reopenPatience = 5 * time.Second
)

// Open opens the file at path, which must be there. It fails with kv.ErrLocked when another process has it, with kv.ErrDamaged when it
// cannot be trusted; a file that is refused was not written to.
func Open(path string, o Options) (*File, error) {
	db, err := openFile(path, patience, o)
	if err != nil {
		return nil, err
	}
	return &File{path: path, options: o, db: db}, nil
}

// Create makes a file at path, whole or not at all, unless there is one. layOut fills it.
func Create(path string, layOut func(kv.Tx) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create store folder: %w", ClassifyError(err))
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("create store: %w", ClassifyError(err))
		}
	}()
	f, err := os.CreateTemp(dir, ".new-store-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(f.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(updateDB(db, layOut), db.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return durable.SyncDir(dir)
}

// openFile opens a file that is there.
func openFile(path string, patience time.Duration, o Options) (db *bbolt.DB, err error) {
	db, err = boltfile.Open(path, boltfile.Options{Layout: boltfile.Flat, Patience: patience, ReadOnly: o.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, ClassifyError(err))
	}
	if o.Prepare == nil {
		return db, nil
	}
	if err := containDamage(func() error { return o.Prepare(session{db}) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), containDamage(db.Close))
	}
	return db, nil
}

// Name returns the path of the file.
func (f *File) Name() string { return f.path }

// ReadOnly reports whether the file is open for reading only.
func (f *File) ReadOnly() bool { return f.options.ReadOnly }

// View runs a read transaction. It must be short: a growing file waits for its readers.
func (f *File) View(read func(kv.Tx) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.db == nil {
		return f.cause
	}
	return containDamage(func() error { return boltfile.View(f.db, func(tx *bbolt.Tx) error { return read(transaction{tx}) }) })
}

// Update runs a write transaction. Only one goroutine may call it and Reopen.
func (f *File) Update(write func(kv.Tx) error) error {
	f.mu.RLock()
	db := f.db
	f.mu.RUnlock()
	if db == nil { // a former commit failed and the file could not be opened again
		if err := f.Reopen(); err != nil {
			return err
		}
		db = f.db // only this goroutine replaces it
	}
	var tx *bbolt.Tx
	err := containDamage(func() (err error) {
		if tx, err = db.Begin(true); err != nil {
			return err
		}
		if err := write(transaction{tx}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if errors.Is(err, kv.ErrDamaged) && tx != nil { // cut off anywhere
		err = errors.Join(err, f.rollBack(tx))
	}
	return err
}

// rollBack ends a transaction in which bbolt broke. If not even that is possible the file is left as it is, with its
// lock, until the process ends: closing it would wait for the transaction.
func (f *File) rollBack(tx *bbolt.Tx) error {
	err := containDamage(tx.Rollback)
	if err == nil || errors.Is(err, bolterrors.ErrTxClosed) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.db, f.cause = nil, err
	return err
}

// Reopen closes the file and opens it again. Readers wait until it is open.
func (f *File) Reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db != nil {
		// A file that cannot even be closed is given up; its lock would show in openFile.
		err := containDamage(f.db.Close)
		f.db, f.cause = nil, err
		if err != nil {
			return fmt.Errorf("close store: %w", err)
		}
	}
	dropCache(f.path)
	f.db, f.cause = openFile(f.path, reopenPatience, f.options)
	return f.cause
}

// Replace puts the file at path in the place of this one, and opens it.
func (f *File) Replace(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := containDamage(f.db.Close); err != nil {
		f.db, f.cause = nil, err
		return fmt.Errorf("close store: %w", err)
	}
	err := os.Rename(path, f.path)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(f.path))
	}
	f.db, f.cause = openFile(f.path, reopenPatience, f.options)
	return errors.Join(err, f.cause)
}

// Check looks at all pages (kv.DB).
func (f *File) Check(progress func(done, of uint64), report func(format string, args ...any)) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.db == nil {
		return f.cause
	}
	return ClassifyError(boltfile.CheckOpen(f.db, boltfile.Flat, progress, report))
}

// CheckPages looks at all pages of a file that need not be one that Open takes. It fails with kv.ErrLocked when a process has it open
// for writing.
func CheckPages(path string, progress func(done, of uint64), report func(format string, args ...any)) error {
	return ClassifyError(boltfile.Check(path, boltfile.Flat, progress, report))
}

// Size returns the size of the file.
func (f *File) Size() (int64, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Close closes the file. Later transactions fail with kv.ErrClosed.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.db == nil {
		return nil
	}
	err := containDamage(f.db.Close)
	f.db, f.cause = nil, kv.ErrClosed
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Keep copies the file to path.suffix. It replaces an earlier copy.
func (f *File) Keep(suffix string) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.db == nil {
		return f.cause
	}
	return session{f.db}.Keep(suffix)
}

// CopyTo writes a copy of the file as it is at this moment to a new file at path, whole or not at all, and syncs it. Updates go on.
func (f *File) CopyTo(path string) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.db == nil {
		return f.cause
	}
	return containDamage(func() error {
		return writeCopy(func(read func(*bbolt.Tx) error) error { return boltfile.View(f.db, read) }, path)
	})
}

// session is a file that Prepare sees.
type session struct{ db *bbolt.DB }

func (s session) View(read func(kv.Tx) error) error {
	return s.db.View(func(tx *bbolt.Tx) error { return read(transaction{tx}) })
}

func (s session) Update(write func(kv.Tx) error) error { return updateDB(s.db, write) }

func (s session) ReadOnly() bool { return s.db.IsReadOnly() }

func (s session) Keep(suffix string) error {
	kept := s.db.Path() + "." + suffix
	part := kept + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeCopy(s.db.View, part); err != nil {
		return ClassifyError(err)
	}
	return errors.Join(os.Rename(part, kept), durable.SyncDir(filepath.Dir(kept)))
}

func updateDB(db *bbolt.DB, write func(kv.Tx) error) error {
	return ClassifyError(db.Update(func(tx *bbolt.Tx) error { return write(transaction{tx}) }))
}

// writeCopy writes the database that view reads to a new file at path, whole or not at all, and syncs it.
func writeCopy(view func(func(*bbolt.Tx) error) error, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	err = view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	return errors.Join(err, f.Sync())
}

// Write fills the file at path, which is empty, by transactions whose keys come in order, and syncs it. It is on disk, and without
// slack, only after that.
func Write(path string, fill func(update func(write func(kv.Tx) error) error) error) (err error) {
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err == nil {
			err = boltfile.CutSlack(path)
		}
	}()
	return fill(func(write func(kv.Tx) error) error {
		return to.Update(func(tx *bbolt.Tx) error { return write(ordered{transaction{tx}}) })
	})
}

// containDamage is boltfile.Contain with an error that callers decide by.
func containDamage(work func() error) error {
	err := boltfile.Contain(work)
	if errors.Is(err, boltfile.ErrDamaged) {
		return fmt.Errorf("%w: %w", kv.ErrDamaged, err)
	}
	return err
}

// ClassifyError adds the error that callers decide by to one of the system's or of the file's.
func ClassifyError(err error) error {
	if err == nil {
		return nil
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) { // bbolt does not wrap them all
			return fmt.Errorf("%w: %w", kv.ErrFull, err)
		}
	}
	switch {
	case errors.Is(err, boltfile.ErrHeld):
		return fmt.Errorf("%w by another process: use that lattice through its socket, or end it", kv.ErrLocked)
	case errors.Is(err, boltfile.ErrDamaged):
		return fmt.Errorf("%w: %w", kv.ErrDamaged, err)
	}
	return err
}
