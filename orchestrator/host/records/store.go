// Package records keeps host.db: which sprites, checkpoints, layers and services exist, and how they refer to each other.
// Each method is one transaction. A transaction returns the layers that it releases; the caller removes the files.
package records

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	ErrNoSprite     = errors.New("sprite not found")
	ErrNoCheckpoint = errors.New("checkpoint not found")
	ErrNameTaken    = errors.New("a sprite of this name exists already")
	// ErrServed is why a host cannot be opened whose directory has one already.
	ErrServed = errors.New("another process serves this directory")
)

// Buckets: sprites holds name → [Sprite]; checkpoints holds one bucket per sprite id: number (8 bytes, big endian)
// → [Checkpoint]; layers holds layer id → [Layer]; meta holds single values. They are read and written as tables.
var (
	bucketSprites     = []byte("sprites")
	bucketCheckpoints = []byte("checkpoints")
	bucketLayers      = []byte("layers")
	bucketMeta        = []byte("meta")

	keyBoot     = []byte("boot")     // which run of the system and mount of the disk the host was last started in
	keySessions = []byte("sessions") // above which number, in decimal, the host that was last started numbered its sessions
)

// lockTimeout is how long opening waits for another process to let go of the file.
const lockTimeout = time.Second

// reserve is the minimum size of host.db. On a full disk there is then still room for the records of a deletion, with
// which space is freed.
const reserve = 1 << 20

// Store is host.db, the single source of truth. After a commit that failed the file is closed and opened again, because
// the handle's view of the file is then unknown.
type Store struct {
	path     string
	Sessions int64 // the host that has opened it numbers sessions above this

	mu     sync.RWMutex // guards the fields below: held for reading during transactions, for writing while db is replaced
	db     *bolt.DB     // nil after a failed reopening and after close
	closed bool
	broken error // not nil when bbolt broke in a transaction: the handle is of no use, and closing it could wait for ever
}

func Open(dir string, now time.Time) (*Store, error) {
	s := &Store{path: filepath.Join(dir, "host.db")}
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.takeRoom(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", s.path, err), s.Close())
	}
	err := s.update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketSprites, bucketCheckpoints, bucketLayers, bucketMeta} {
			_, err := tx.CreateBucketIfNotExists(name)
			if errors.Is(err, bolterrors.ErrIncompatibleValue) { // the flag of the bucket's entry is lost
				return fmt.Errorf("%w: bucket %s: %w", ErrDamaged, name, err)
			}
			if err != nil {
				return err
			}
		}
		err := sealAll(tx)
		if err == nil {
			s.Sessions, err = numberSessions(tx, now)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", s.path, err), s.Close())
	}
	return s, nil
}

// sessionStride is how many sessions a host can have had that was started after the clock says it is now.
const sessionStride = 1 << 20

// numberSessions returns the number above which sessions are numbered: milliseconds, of which each sees less than one session
// begin, so that no number is given out again; or well above the last time's, where the clock has gone back.
func numberSessions(tx *bolt.Tx, now time.Time) (int64, error) {
	meta, above := openTable(tx, bucketMeta), now.UnixMilli()
	text, err := meta.Get(keySessions)
	if err != nil { // a damaged one is written again
		above += sessionStride
	}
	if before, err := strconv.ParseInt(string(text), 10, 64); err == nil && above <= before {
		above = before + sessionStride
	}
	return above, meta.Put(keySessions, strconv.AppendInt(nil, above, 10))
}

func (s *Store) open() error {
	db, err := boltfile.Open(s.path, boltfile.Options{Layout: boltfile.Nested, Patience: lockTimeout, Create: true})
	if errors.Is(err, boltfile.ErrHeld) {
		return fmt.Errorf("open %s: %w; end it or choose another one", s.path, ErrServed)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.db = db
	return nil
}

// takeRoom makes the file as large as reserve says, with written blocks. A disk that has no room for that has none for
// sprites either, but existing ones can be listed and removed.
func (s *Store) takeRoom() error {
	info, err := os.Stat(s.path)
	if err != nil || info.Size() >= reserve {
		return err
	}
	if err := s.db.Close(); err != nil { // it must not see the file grow
		return err
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, reserve-info.Size()), info.Size())
	if err != nil {
		err = f.Truncate(info.Size())
	}
	return errors.Join(err, f.Close(), s.open())
}

func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

var ErrClosed = errors.New("the host's database is closed")

// view runs fn in a read transaction. It reads and does nothing else: see package boltfile.
func (s *Store) view(fn func(*bolt.Tx) error) error {
	if err := s.holdDatabase(); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	return boltfile.Contain(func() error { return boltfile.View(s.db, fn) })
}

// holdDatabase holds the database for reading, opening it first when that failed after an earlier commit: the cause, such
// as a full disk, may have passed.
func (s *Store) holdDatabase() error {
	s.mu.RLock()
	if s.db != nil {
		return nil
	}
	closed, broken := s.closed, s.broken
	s.mu.RUnlock()
	switch {
	case closed:
		return ErrClosed
	case broken != nil:
		return broken
	}
	if err := s.reopen(); err != nil {
		return err
	}
	return s.holdDatabase()
}

// update runs fn in one durable transaction.
func (s *Store) update(fn func(*bolt.Tx) error) error {
	refused, err := s.transact(fn)
	if errors.Is(err, ErrDamaged) {
		return s.giveUp(err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), s.reopen())
	}
	return refused
}

// transact runs fn in a write transaction; refused is fn's own error.
func (s *Store) transact(fn func(*bolt.Tx) error) (refused, err error) {
	if err := s.holdDatabase(); err != nil {
		return err, nil
	}
	defer s.mu.RUnlock()
	err = boltfile.Contain(func() error {
		return boltfile.Update(s.db, func(tx *bolt.Tx) error {
			refused = fn(tx)
			return refused
		})
	})
	switch {
	case refused == nil:
		return nil, err
	case errors.Is(err, ErrDamaged): // as which bbolt's own refusal may have been recognized
		return err, nil
	}
	return refused, nil
}

// giveUp leaves the file as it is, with its lock, until the process ends.
func (s *Store) giveUp(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.broken = nil, why
	return why
}

func (s *Store) reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.broken != nil:
		return s.broken
	}
	if s.db != nil {
		// An error of closing a handle that is given up changes nothing.
		_ = s.db.Close()
		s.db = nil
	}
	return s.open()
}

// ErrDamaged is why a host cannot be opened whose host.db is damaged. Nothing was written to it.
var ErrDamaged = boltfile.ErrDamaged

// OpenReads returns how many read transactions are open.
func (s *Store) OpenReads() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.db.Stats().OpenTxN
}
