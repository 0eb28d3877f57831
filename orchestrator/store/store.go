// Package store keeps runs in one bbolt file or in a PostgreSQL database. It implements the engine's Log and serves everything else that is read
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
// Invariants: one goroutine commits (package commit); sequence numbers have no gaps; an append, its index, dedupe keys and
// snapshot are one transaction. All of it is written against package kv; package bolt is the driver for files, with their locks,
// damage and recovery, package postgres the one for databases. The package decides nothing about runs; it decodes the bodies of facts about noted actions alone.
package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
	"github.com/spritekit/lattice/orchestrator/store/postgres"
)

// Failure is an error that callers can tell apart.
type Failure = kv.Failure

// Errors of opening and using a store.
var (
	ErrLocked   = kv.ErrLocked
	ErrNewer    = kv.ErrNewer
	ErrDamaged  = kv.ErrDamaged
	ErrFull     = kv.ErrFull
	ErrNotEmpty = kv.ErrNotEmpty

	ErrUnreachable = kv.ErrUnreachable
	ErrRefused     = kv.ErrRefused
	ErrMissing     = kv.ErrMissing
	ErrAddress     = kv.ErrAddress

	ErrReadOnly = kv.ErrReadOnly
	ErrClosed   = kv.ErrClosed

	ErrNotFound  = errors.New("no such run")
	ErrAmbiguous = errors.New("the id fits several runs")
	ErrExists    = errors.New("the run exists")
)

// Store is an open store. It is safe for concurrent use; Close it once.
type Store struct {
	reader
	commits *commit.Committer
	behind  behind
	tally   tally
	lost    <-chan struct{} // see Lost
}

// reader reads a database, and counts what it reads.
type reader struct {
	db    kv.DB
	reads atomic.Uint64
}

func (r *reader) view(read func(kv.Tx) error) error {
	return r.db.View(func(tx kv.Tx) error { return read(kv.CountReads(tx, &r.reads)) })
}

// CountReads returns how many keys were looked up or passed, outside of writes, since the database was opened.
func (r *reader) CountReads() uint64 { return r.reads.Load() }

// IsDatabase reports whether an address is a URL rather than the path of a file.
func IsDatabase(address string) bool { return strings.Contains(address, "://") }

// Open opens or creates the store at an address: the path of a file, whose folder it makes, or the URL of a PostgreSQL database. It
// fails with ErrLocked when another process has it open for writing, with ErrNewer when a newer lattice wrote it, with ErrDamaged when it cannot
// be trusted (nothing is overwritten then), with ErrFull when there is no room for a new one, and as postgres.Open does.
func Open(address string) (*Store, error) { return OpenAs(address, Leader{}) }

// Leader describes a process that opens a store for writing to those that would like to. Files need none of it.
type Leader struct {
	URL  string        // at which it serves, "" for none
	Term time.Duration // see Store.Lost; 0 for none
}

// Lease says which process leads a database.
type Lease = postgres.Lease

// ReadLease returns the lease of a database; it fails with ErrMissing if none has led it, and as Open does.
func ReadLease(ctx context.Context, address string) (Lease, error) {
	return postgres.ReadLease(ctx, address)
}

// OpenAs is Open for a process that others may want to know.
func OpenAs(address string, by Leader) (*Store, error) {
	if IsDatabase(address) {
		return openDatabase(address, postgres.Options{Prepare: prepareDatabase, Address: by.URL, Term: by.Term})
	}
	if _, err := os.Lstat(address); errors.Is(err, os.ErrNotExist) {
		if err := bolt.Create(address, layOut); err != nil {
			return nil, err
		}
	}
	return openFile(address, bolt.Options{Prepare: createBuckets})
}

// OpenReadOnly opens the store at an address, which must be there, and changes nothing about it; appends fail with
// ErrReadOnly. It fails as Open does.
func OpenReadOnly(address string) (*Store, error) {
	if IsDatabase(address) {
		return openDatabase(address, postgres.Options{ReadOnly: true, Prepare: createBuckets})
	}
	return openFile(address, bolt.Options{ReadOnly: true, Prepare: createBuckets})
}

func openFile(path string, o bolt.Options) (*Store, error) {
	db, err := bolt.Open(path, o)
	if err != nil {
		return nil, err
	}
	return newStore(db), nil
}

func openDatabase(url string, o postgres.Options) (*Store, error) {
	db, err := postgres.Open(url, o)
	if err != nil {
		return nil, err
	}
	s := newStore(db)
	db.Watch(s.commits.Announce) // commits of other processes
	s.lost = db.Lost()
	return s, nil
}

func newStore(db kv.DB) *Store {
	s := &Store{reader: reader{db: db}}
	s.behind.tally = &s.tally
	s.commits = commit.New(db, &s.behind)
	return s
}

// Name returns the path of the file, or the URL of the database without its password.
func (s *Store) Name() string { return s.db.Name() }

// Lost is closed when this process could not renew its lead of a database for half of the term: nothing is stored any more, and another
// process may lead after the other half. It is nil for a file.
func (s *Store) Lost() <-chan struct{} { return s.lost }

// Size returns how many bytes the store takes.
func (s *Store) Size() (int64, error) {
	n, err := s.db.Size()
	if err != nil {
		return 0, fmt.Errorf("measure the store: %w", err)
	}
	return n, nil
}

// Close writes the audit entries that wait, ends the committer, waits for it and closes the database. Requests that it had not taken
// get ErrClosed.
func (s *Store) Close() error {
	_ = s.behind.flushEntries(s.commits) // on a full disk they are lost, as after a crash
	return s.commits.Close()
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

// openSealed returns the content of a value, which belongs to the transaction. It fails with ErrDamaged.
func openSealed(bucket, key, value []byte) ([]byte, error) {
	if len(value) > 0 && value[0] == '{' {
		return value, nil // of schema 1
	}
	content, err := boltfile.Unseal(bucket, key, value)
	if err != nil {
		return nil, fmt.Errorf("%w%s", ErrDamaged, strings.TrimPrefix(err.Error(), boltfile.ErrDamaged.Error()))
	}
	return content, nil
}
