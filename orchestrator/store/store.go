// Package store keeps runs in one bbolt file. It implements the engine's Log and serves everything else that is read
// from the log: runs, entries, snapshots, tails. Start with Open and Store.Append.
//
// Buckets:
//
//	meta      schema version
//	runs      run id → RunRecord (without the program)
//	programs  digest → ExecIR bytes, shared by runs
//	entries   global sequence → entry; only ever appended to
//	heads     run id → number of the run, its last sequence
//	index     run number + sequence → kind; light, so that runs side by side do not spread the entries over the file
//	dedupe    run number + hash of the key → sequence
//	states    run id → newest state entry; replaced
//
// Invariants: one goroutine commits (commit.go); sequence numbers have no gaps; an append, its index, dedupe keys and
// snapshot are one transaction. After a failed commit the file is closed and opened again: bbolt's memory cannot be
// trusted then (DESIGN 5). The package decides nothing about runs and decodes no bodies.
package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// SchemaVersion is the layout that this version writes and the newest it reads.
const SchemaVersion = 1

var (
	bucketMeta     = []byte("meta")
	bucketRuns     = []byte("runs")
	bucketPrograms = []byte("programs")
	bucketEntries  = []byte("entries")
	bucketHeads    = []byte("heads")
	bucketIndex    = []byte("index")
	bucketDedupe   = []byte("dedupe")
	bucketStates   = []byte("states")

	keySchema = []byte("schema")
)

// Errors that callers decide by.
var (
	ErrLocked    = errors.New("the store is in use")
	ErrNewer     = errors.New("the store is newer than this lattice")
	ErrClosed    = errors.New("the store is closed")
	ErrNotFound  = errors.New("no such run")
	ErrAmbiguous = errors.New("the id fits several runs")
	ErrExists    = errors.New("the run exists")
)

// Store is an open store. It is safe for concurrent use; Close it once.
type Store struct {
	path string

	requests chan *request
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed by the committer when it has ended

	mu sync.RWMutex // guards db: readers share it, closing and opening again is exclusive
	db *bbolt.DB    // nil while it could not be opened again

	tails notifier
}

// Open opens or creates the store at path, with its folder. It fails with ErrLocked when another process has it, and
// with ErrNewer when a newer lattice wrote it.
func Open(path string) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create store folder: %w", err)
	}
	db, err := openFile(path, 200*time.Millisecond)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: path, db: db,
		requests: make(chan *request), stop: make(chan struct{}), stopped: make(chan struct{}),
		tails: notifier{signal: make(chan struct{})},
	}
	go func() {
		defer close(s.stopped)
		s.commitLoop()
	}()
	return s, nil
}

// Close ends the committer, waits for it and closes the file. Requests that it had not taken get ErrClosed.
func (s *Store) Close() error {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails.close()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

func openFile(path string, patience time.Duration) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: %w by another process: use that lattice through its socket, or end it", path, ErrLocked)
	case err != nil:
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare makes the buckets of a new file and checks the version of an old one. An old one is not written to.
func prepare(db *bbolt.DB) error {
	have, err := schemaOf(db)
	switch {
	case err != nil:
		return err
	case have > SchemaVersion:
		return fmt.Errorf("%w: it has schema %d, this version reads up to %d: use the lattice that wrote it", ErrNewer, have, SchemaVersion)
	case have == SchemaVersion:
		return nil
	}
	return db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{
			bucketMeta, bucketRuns, bucketPrograms, bucketEntries, bucketHeads, bucketIndex, bucketDedupe, bucketStates,
		} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return fmt.Errorf("create bucket %s: %w", name, err)
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, u64(SchemaVersion))
	})
}

// schemaOf is the version of the file, 0 for an empty one.
func schemaOf(db *bbolt.DB) (uint64, error) {
	var version uint64
	err := db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			if first, _ := tx.Cursor().First(); first != nil {
				return errors.New("the file is a bbolt database but not a store of lattice")
			}
			return nil
		}
		raw := meta.Get(keySchema)
		if len(raw) != 8 {
			return errors.New("the store has no schema version: the file is damaged")
		}
		version = binary.BigEndian.Uint64(raw)
		return nil
	})
	return version, err
}

// view runs a read transaction. It must be short: a growing file waits for its readers.
func (s *Store) view(read func(*bbolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return ErrClosed
	}
	return s.db.View(read)
}

func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// marshal keeps "<", ">" and "&" inside bodies as they are: what is hashed or compared elsewhere must come back in the
// same bytes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
