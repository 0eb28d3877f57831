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
//	order     number of the run → run id
//	open      run id → nothing, of runs that have not ended
//	audit     sequence of its own → audit entry; only ever appended to
//	actions   open or closed + number of the run + hash of the key → run id, of noted actions
//	artifacts number of the run + sequence → run id, of ARTIFACT events
//	intents   audit sequence → id of an intent, and back
//	lookup    hash of a sprite or a work item + number of the run → run id
//
// Values are sealed with a checksum, see seal.go.
//
// Invariants: one goroutine commits (commit.go); sequence numbers have no gaps; an append, its index, dedupe keys and
// snapshot are one transaction. After a failed commit the file is closed and opened again: bbolt's memory cannot be
// trusted then (DESIGN 5). A file is looked at before bbolt maps it, because bbolt does not survive a damaged one
// (pages.go, open.go); one that is refused was not written to. The package decides nothing about runs; it
// decodes the bodies of facts about noted actions alone.
package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

var (
	bucketMeta     = []byte("meta")
	bucketRuns     = []byte("runs")
	bucketPrograms = []byte("programs")
	bucketEntries  = []byte("entries")
	bucketHeads    = []byte("heads")
	bucketIndex    = []byte("index")
	bucketDedupe   = []byte("dedupe")
	bucketStates   = []byte("states")

	buckets = [][]byte{
		bucketMeta, bucketRuns, bucketPrograms, bucketEntries, bucketHeads, bucketIndex, bucketDedupe, bucketStates,
		bucketOrder, bucketOpen, bucketActions, bucketLookup, bucketAudit, bucketAuditIndex, bucketArtifacts, bucketIntents,
	}

	keySchema = []byte("schema")
)

// Failure is an error that callers can tell apart. Advice gives its meaning for commands: an exit code, a code
// and a remedy.
type Failure struct {
	text       string
	exit       int
	code, hint string
}

func (f *Failure) Error() string { return f.text }

// Advice returns the exit code of a command that ends with f, the code for machines, and a remedy.
func (f *Failure) Advice() (exit int, code, hint string) { return f.exit, f.code, f.hint }

// Errors of opening and using a store.
var (
	ErrLocked  = &Failure{"the store is in use", 6, "store_locked", ""}
	ErrNewer   = &Failure{"the store is newer than this lattice", 8, "store_newer", "update lattice, or set LATTICE_HOME to another directory"}
	ErrDamaged = &Failure{"the store is damaged", 1, "store_damaged", "lattice store check shows the damage; lattice store restore FILE restores a backup and keeps this store under another name"}
	ErrFull    = &Failure{"the disk is full", 9, "disk_full", "free some space, then: lattice resume"} // or a quota, or the largest size of a file
)

// Answers of a store that are no damage.
var (
	ErrReadOnly  = &Failure{"the store is open for reading only", 4, "home_read_only", "set LATTICE_HOME to a directory that you may write; runs can be read and backed up all the same"}
	ErrClosed    = errors.New("the store is closed")
	ErrNotFound  = errors.New("no such run")
	ErrAmbiguous = errors.New("the id fits several runs")
	ErrExists    = errors.New("the run exists")
)

// Store is an open store. It is safe for concurrent use; Close it once.
type Store struct {
	path     string
	readOnly bool

	requests chan *request
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed by the committer when it has ended

	mu    sync.RWMutex // guards the fields below: readers share db, closing and opening again is exclusive
	db    *bbolt.DB    // nil while it could not be opened again
	cause error        // why db is nil

	tails  notifier
	behind behind
	tally  tally
}

// Open opens or creates the store at path, with its folder. It fails with ErrLocked when another process has it, with
// ErrNewer when a newer lattice wrote it, with ErrDamaged when it cannot be trusted (nothing is overwritten then), with
// ErrFull when there is no room for a new one.
func Open(path string) (*Store, error) {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := createFile(path); err != nil {
			return nil, classifyError(err)
		}
	}
	db, err := openFile(path, 200*time.Millisecond, false)
	if err != nil {
		return nil, err
	}
	s := newStore(path, db)
	go func() {
		defer close(s.stopped)
		s.commitLoop()
	}()
	return s, nil
}

// OpenReadOnly opens the store at path, which must be there, and changes nothing about it; appends fail with
// ErrReadOnly. It fails as Open does.
func OpenReadOnly(path string) (*Store, error) {
	db, err := openFile(path, 200*time.Millisecond, true)
	if err != nil {
		return nil, err
	}
	s := newStore(path, db)
	s.readOnly = true
	close(s.stopped)
	return s, nil
}

func newStore(path string, db *bbolt.DB) *Store {
	return &Store{
		path: path, db: db,
		requests: make(chan *request), stop: make(chan struct{}), stopped: make(chan struct{}),
		tails: notifier{signal: make(chan struct{})},
	}
}

// Close writes the audit entries that wait, ends the committer, waits for it and closes the file. Requests that it had not taken
// get ErrClosed.
func (s *Store) Close() error {
	_ = s.flushAudit() // on a full disk they are lost, as after a crash
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails.close()
	if s.db == nil {
		return nil
	}
	err := recoverPanic(s.db.Close)
	s.db, s.cause = nil, ErrClosed
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// viewFile runs a read transaction. It must be short: a growing file waits for its readers.
func (s *Store) viewFile(read func(*bbolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return s.cause
	}
	return recoverPanic(func() error { return boltfile.View(s.db, read) })
}

func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// marshalJSON keeps "<", ">" and "&" inside bodies as they are: bodies that are hashed or compared elsewhere must come back in the
// same bytes.
func marshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
