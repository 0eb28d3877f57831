package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// RunRecord holds the properties of a run that are fixed when it is created.
type RunRecord struct {
	ID       string          `json:"run_id"`
	WorkItem string          `json:"work_item_id"`
	Created  time.Time       `json:"created_at"`
	Sprite   string          `json:"sprite,omitempty"`
	Options  json.RawMessage `json:"options,omitempty"` // the caller's
	Digest   string          `json:"program_sha256"`    // of Program's bytes, set by Create
	Program  []byte          `json:"-"`                 // the ExecIR document as it was given
	// Secret has 32 bytes from which call ids are derived. They never enter a sprite or any output.
	Secret []byte `json:"-"`
}

// runOnDisk is a RunRecord with the members that its JSON form omits elsewhere.
type runOnDisk struct {
	RunRecord
	Key []byte `json:"secret"`
}

// Create records a run. Programs are stored once, by the digest of their bytes. It fails with ErrExists.
func (s *Store) Create(ctx context.Context, run RunRecord) error {
	switch {
	case run.ID == "":
		return fmt.Errorf("create run: it has no id")
	case len(run.Secret) != 32:
		return fmt.Errorf("create run %s: the secret has %d bytes, not 32", run.ID, len(run.Secret))
	}
	sum := sha256.Sum256(run.Program)
	run.Digest = hex.EncodeToString(sum[:])
	raw, err := marshalJSON(runOnDisk{run, run.Secret})
	if err != nil {
		return fmt.Errorf("encode run %s: %w", run.ID, err)
	}
	id := []byte(run.ID)
	return s.commits.Commit(ctx, &commit.Request{
		Check: func(tx kv.Tx) error {
			if tx.Bucket(bucketRuns).Get(id) != nil {
				return fmt.Errorf("%w: %s", ErrExists, run.ID)
			}
			return nil
		},
		Write: func(tx kv.Tx) error {
			number, err := tx.Bucket(bucketRuns).NextSequence()
			if err != nil {
				return fmt.Errorf("take a run number: %w", err)
			}
			if err := tx.Bucket(bucketHeads).Put(id, head{number: uint32(number)}.encode(id)); err != nil {
				return fmt.Errorf("put head: %w", err)
			}
			if err := tx.Bucket(bucketPrograms).Put([]byte(run.Digest), run.Program); err != nil {
				return fmt.Errorf("put program: %w", err)
			}
			if err := tx.Bucket(bucketOrder).Put(u32(uint32(number)), id); err != nil {
				return fmt.Errorf("put index: %w", err)
			}
			if err := tx.Bucket(bucketOpen).Put(id, nil); err != nil {
				return fmt.Errorf("put index: %w", err)
			}
			if err := putLookups(tx, uint32(number), run); err != nil {
				return fmt.Errorf("put index: %w", err)
			}
			return tx.Bucket(bucketRuns).Put(id, boltfile.Seal(bucketRuns, id, raw))
		},
	})
}

// Run returns the run whose id is id or begins with it. It fails with ErrNotFound or ErrAmbiguous.
func (s *Store) Run(id string) (RunRecord, error) {
	var run RunRecord
	err := s.view(func(tx kv.Tx) error {
		key, err := findRun(tx, id)
		if err != nil {
			return err
		}
		run, err = readRun(tx, key, tx.Bucket(bucketRuns).Get(key), true)
		return err
	})
	return run, err
}

// Find returns the id of the run whose id is id or begins with it. It fails with ErrNotFound or ErrAmbiguous.
func (s *Store) Find(id string) (found string, err error) {
	err = s.view(func(tx kv.Tx) error {
		key, err := findRun(tx, id)
		found = string(key)
		return err
	})
	return found, err
}

func findRun(tx kv.Tx, id string) ([]byte, error) {
	runs := tx.Bucket(bucketRuns)
	if id == "" {
		return nil, fmt.Errorf("%w: the id is empty", ErrNotFound)
	}
	if runs.Get([]byte(id)) != nil {
		return []byte(id), nil
	}
	var fits []string
	c := runs.Cursor()
	for k, _ := c.Seek([]byte(id)); bytes.HasPrefix(k, []byte(id)) && len(fits) < 5; k, _ = c.Next() {
		fits = append(fits, string(k))
	}
	switch len(fits) {
	case 0:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	case 1:
		return []byte(fits[0]), nil
	}
	return nil, fmt.Errorf("%w: %s could be %s", ErrAmbiguous, id, strings.Join(fits, ", "))
}

func readRun(tx kv.Tx, id, raw []byte, program bool) (RunRecord, error) {
	var stored runOnDisk
	raw, err := openSealed(bucketRuns, id, raw)
	if err != nil {
		return RunRecord{}, err
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return RunRecord{}, fmt.Errorf("decode run record: %w", err)
	}
	run := stored.RunRecord
	run.Secret = stored.Key
	if program {
		run.Program = bytes.Clone(tx.Bucket(bucketPrograms).Get([]byte(run.Digest)))
		if sum := sha256.Sum256(run.Program); hex.EncodeToString(sum[:]) != run.Digest {
			return run, fmt.Errorf("%w: the program of run %s does not have the digest %s", ErrDamaged, run.ID, run.Digest)
		}
	}
	return run, nil
}

// Runs lists all runs, newest first, without their programs.
func (s *Store) Runs() ([]RunRecord, error) {
	var runs []RunRecord
	err := s.view(func(tx kv.Tx) error {
		return kv.ForEach(tx.Bucket(bucketRuns), func(id, raw []byte) error {
			run, err := readRun(tx, id, raw, false)
			runs = append(runs, run)
			return err
		})
	})
	slices.SortStableFunc(runs, newestFirst)
	return runs, err
}

func newestFirst(a, b RunRecord) int {
	if c := b.Created.Compare(a.Created); c != 0 {
		return c
	}
	return strings.Compare(b.ID, a.ID)
}

// Record returns the run with this id, without its program. It fails with ErrNotFound.
func (s *Store) Record(id string) (RunRecord, error) {
	var run RunRecord
	err := s.view(func(tx kv.Tx) (err error) {
		raw := tx.Bucket(bucketRuns).Get([]byte(id))
		if raw == nil {
			return fmt.Errorf("%w: %s", ErrNotFound, id)
		}
		run, err = readRun(tx, []byte(id), raw, false)
		return err
	})
	return run, err
}
