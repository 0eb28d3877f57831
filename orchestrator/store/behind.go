package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/spritekit/lattice/orchestrator/audit"
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
}

// QueueAudit appends an entry with the next commit, or when the store is closed, unless its key has an entry then. A store that is
// open for reading only keeps no entries.
func (s *Store) QueueAudit(e audit.Entry) {
	if s.db.ReadOnly() {
		return
	}
	s.commits.behind.mu.Lock()
	defer s.commits.behind.mu.Unlock()
	if len(s.commits.behind.entries) >= maxBehind {
		s.commits.behind.missed++
		return
	}
	s.commits.behind.entries = append(s.commits.behind.entries, e)
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

// putWaiting writes the entries that wait. written forgets them; it is called after the commit.
func (c *committer) putWaiting(tx kv.Tx) (written func(), err error) {
	entries, missed := c.behind.peek()
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
		c.behind.drop(len(entries)-min(missed, 1), missed)
		for _, kind := range put {
			c.tally.add(auditEntry, string(kind), 1)
		}
	}, nil
}

// flushAudit writes the entries that wait, if there are any.
func (c *committer) flushAudit() error {
	c.behind.mu.Lock()
	waiting := len(c.behind.entries)
	c.behind.mu.Unlock()
	if waiting == 0 {
		return nil
	}
	nothing := func(kv.Tx) error { return nil }
	return c.commitRequest(context.Background(), &request{check: nothing, write: nothing})
}
