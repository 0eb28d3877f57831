package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/store/commit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Entries of calls that have no effect outside of sprites are written behind: the next commit of anything takes them along,
// before its own writes, so they cost no fsync and keep their order. An entry that must be on the disk before an effect is
// appended with AppendAudit, which is such a commit. A crash loses the entries since the last commit.

// maxBehind bounds the entries that wait for a commit; further ones are counted and not kept.
const maxBehind = 4096

type behind struct {
	mu      sync.Mutex
	entries []audit.Entry // guarded by mu, as below
	missed  int           // entries that were not kept
	tally   *tally        // counts those that were written
}

// QueueAudit appends an entry with the next commit, or when the store is closed, unless its key has an entry then. A store that is
// open for reading only keeps no entries.
func (s *Store) QueueAudit(e audit.Entry) {
	if s.db.ReadOnly() {
		return
	}
	s.behind.mu.Lock()
	defer s.behind.mu.Unlock()
	if len(s.behind.entries) >= maxBehind {
		s.behind.missed++
		return
	}
	s.behind.entries = append(s.behind.entries, e)
}

// peek returns the entries that wait. The last one says how many were not kept.
func (b *behind) peek() (entries []audit.Entry, missed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entries, missed = b.entries[:len(b.entries):len(b.entries)], b.missed
	if missed == 0 {
		return entries, 0
	}
	last := entries[len(entries)-1]
	body, err := json.Marshal(map[string]int{"missed": missed})
	if err != nil {
		return entries, 0
	}
	return append(entries, audit.Entry{At: last.At, Kind: last.Kind, Subject: "audit", Body: body}), missed
}

// drop forgets the first n entries that wait, and missed ones that were counted.
func (b *behind) drop(n, missed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append([]audit.Entry(nil), b.entries[min(n, len(b.entries)):]...)
	b.missed -= missed
}

// Put writes the entries that wait. written forgets them.
func (b *behind) Put(tx kv.Tx) (written func(), err error) {
	entries, missed := b.peek()
	var put []audit.Kind
	for _, e := range entries {
		if e.Key != "" && tx.Bucket(bucketAuditIndex).Get(auditIndexKey(auditKey, e.Key)) != nil {
			continue
		}
		if _, err := putAudit(tx, e); err != nil {
			return nil, fmt.Errorf("write audit entries behind: %w", err)
		}
		put = append(put, e.Kind)
	}
	return func() {
		b.drop(len(entries)-min(missed, 1), missed)
		for _, kind := range put {
			b.tally.add(auditEntry, string(kind), 1)
		}
	}, nil
}

// Drop forgets all entries that wait.
func (b *behind) Drop() { b.drop(maxBehind, 0) }

// flushEntries writes the entries that wait, if there are any.
func (b *behind) flushEntries(commits *commit.Committer) error {
	b.mu.Lock()
	waiting := len(b.entries)
	b.mu.Unlock()
	if waiting == 0 {
		return nil
	}
	nothing := func(kv.Tx) error { return nil }
	return commits.Commit(context.Background(), &commit.Request{Check: nothing, Write: nothing})
}
