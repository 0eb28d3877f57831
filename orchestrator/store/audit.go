package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// The audit log has its own sequence; each entry holds the digest of the one before it. The index auditindex finds entries
// by key and by subject: a byte for the kind of the index key, 16 bytes of a hash, and for subjects the sequence number.

const (
	auditKey     = 'k' // + hash → sequence number
	auditSubject = 's' // + hash + sequence number → nothing
)

func auditIndexKey(kind byte, name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return append([]byte{kind}, sum[:16]...)
}

// Any is the position for AppendAudit that admits any.
const Any = ^uint64(0)

// AppendAudit appends an entry to the audit log; it is on disk when AppendAudit returns nil. after is the number of the last
// entry of the subject, 0 for none, or Any; if another one is the last, it fails with lattice.ErrConflict. If the key of e
// has an entry, that entry is returned, nothing is appended, and added is false.
func (s *Store) AppendAudit(ctx context.Context, e audit.Entry, after uint64) (stored audit.Entry, added bool, err error) {
	err = s.commits.Commit(ctx, &commit.Request{
		Check: func(tx kv.Tx) error {
			index := tx.Bucket(bucketAuditIndex)
			if e.Key != "" {
				if at := index.Get(auditIndexKey(auditKey, e.Key)); at != nil {
					if stored, err = readAudit(tx, at); err != nil {
						return err
					}
					return errRecorded
				}
			}
			if after == Any {
				return nil
			}
			if last := lastOf(index, e.Subject); last != after {
				return fmt.Errorf("record %s of %s after %d: %w to %d", e.Kind, e.Subject, after, lattice.ErrConflict, last)
			}
			return nil
		},
		Write: func(tx kv.Tx) error {
			stored, err = putAudit(tx, e)
			return err
		},
	})
	if errors.Is(err, errRecorded) {
		return stored, false, nil
	}
	if err == nil {
		s.tally.add(auditEntry, string(e.Kind), 1)
	}
	return stored, err == nil, err
}

// putAudit appends an entry behind the last one.
func putAudit(tx kv.Tx, e audit.Entry) (audit.Entry, error) {
	log, index := tx.Bucket(bucketAudit), tx.Bucket(bucketAuditIndex)
	prev := ""
	if last := log.Sequence(); last != 0 {
		last, err := readAudit(tx, u64(last))
		if err != nil {
			return e, err
		}
		prev = last.Sum
	}
	seq, err := log.NextSequence()
	if err != nil {
		return e, fmt.Errorf("take a sequence number: %w", err)
	}
	if e, err = e.Chain(seq, prev); err != nil {
		return e, err
	}
	raw, err := marshalJSON(e)
	if err != nil {
		return e, fmt.Errorf("encode audit entry: %w", err)
	}
	if err := log.Put(u64(seq), boltfile.Seal(bucketAudit, u64(seq), raw)); err != nil {
		return e, fmt.Errorf("put audit entry: %w", err)
	}
	if err := putIntent(tx.Bucket(bucketIntents), e); err != nil {
		return e, fmt.Errorf("put index: %w", err)
	}
	return e, indexAudit(index, e)
}

// auditEntry is the kind of entries of the audit log where they are counted.
const auditEntry lattice.EntryKind = "audit"

var errRecorded = errors.New("the entry is recorded")

func indexAudit(index kv.Bucket, e audit.Entry) error {
	if e.Key != "" {
		if err := index.Put(auditIndexKey(auditKey, e.Key), u64(e.Seq)); err != nil {
			return fmt.Errorf("put index: %w", err)
		}
	}
	return index.Put(auditSubjectKey(e), nil)
}

// auditSubjectKey is the key of an entry in the index of subjects.
func auditSubjectKey(e audit.Entry) []byte {
	return append(auditIndexKey(auditSubject, e.Subject), u64(e.Seq)...)
}

// lastOf returns the number of the last entry of a subject, 0 for none.
func lastOf(index kv.Bucket, subject string) uint64 {
	prefix := auditIndexKey(auditSubject, subject)
	c := index.Cursor()
	k, _ := c.Seek(append(bytes.Clone(prefix), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	if k == nil {
		k, _ = c.Last()
	} else if !bytes.HasPrefix(k, prefix) {
		k, _ = c.Prev()
	}
	if !bytes.HasPrefix(k, prefix) {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(prefix):])
}

func readAudit(tx kv.Tx, key []byte) (e audit.Entry, err error) {
	raw, err := openSealed(bucketAudit, key, tx.Bucket(bucketAudit).Get(key))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("%w: audit entry %x: %w", ErrDamaged, key, err)
	}
	return e, nil
}

// Audit calls yield for the entries of a subject, "" for all, in order, from the first one behind after. It stops at the
// first error of yield and returns it.
//
// Without a subject it first writes the entries that QueueAudit holds back.
func (s *Store) Audit(subject string, after uint64, yield func(audit.Entry) error) error {
	const page = 256
	if subject == "" {
		if err := s.behind.flushEntries(s.commits); err != nil {
			return err
		}
	}
	for {
		var entries []audit.Entry
		err := s.view(func(tx kv.Tx) error {
			entries = entries[:0]
			if tx.Bucket(bucketAudit) == nil {
				return nil // an older file that is open for reading only
			}
			c, prefix := tx.Bucket(bucketAudit).Cursor(), []byte(nil)
			if subject != "" {
				c, prefix = tx.Bucket(bucketAuditIndex).Cursor(), auditIndexKey(auditSubject, subject)
			}
			for k, _ := c.Seek(append(bytes.Clone(prefix), u64(after+1)...)); bytes.HasPrefix(k, prefix) && k != nil && len(entries) < page; k, _ = c.Next() {
				e, err := readAudit(tx, k[len(prefix):])
				if err != nil {
					return err
				}
				entries = append(entries, e)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := yield(e); err != nil {
				return err
			}
			after = e.Seq
		}
		if len(entries) < page {
			return nil
		}
	}
}

// LastAudit returns the last entry of a subject.
func (s *Store) LastAudit(subject string) (e audit.Entry, ok bool, err error) {
	err = s.view(func(tx kv.Tx) error {
		index := tx.Bucket(bucketAuditIndex)
		if index == nil {
			return nil // an older file that is open for reading only
		}
		seq := lastOf(index, subject)
		if seq == 0 {
			return nil
		}
		ok = true
		e, err = readAudit(tx, u64(seq))
		return err
	})
	return e, ok, err
}

// makeAudit makes the buckets of the audit log that a file lacks.
func makeAudit(tx kv.Tx) error {
	log, err := tx.Create(bucketAudit)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketAudit, err)
	}
	index, err := tx.Create(bucketAuditIndex)
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucketAuditIndex, err)
	}
	return kv.ForEach(log, func(key, _ []byte) error {
		e, err := readAudit(tx, key)
		if err != nil {
			return nil // Check reports it
		}
		return indexAudit(index, e)
	})
}
