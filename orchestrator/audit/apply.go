package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// Reader reads the entries of a subject that follow a sequence number.
type Reader interface {
	AuditEntries(ctx context.Context, subject string, after uint64, yield func(Entry) error) error
}

// Facts is the log for packages that keep their state there.
type Facts interface {
	Reader
	// AddFact appends a fact behind the entry after of its subject, or returns an earlier entry with its key. It fails with
	// lattice.ErrConflict if another entry came between.
	AddFact(ctx context.Context, e Entry, fact any, after uint64) (Entry, error)
}

// ApplyNew calls apply with each entry of a subject after *last and the fact in its body, and advances *last. It holds mu
// while it uses last and calls apply, but not while it reads. Concurrent callers apply each entry once.
func ApplyNew[Fact any](ctx context.Context, log Reader, subject string, mu sync.Locker, last *uint64, apply func(Entry, Fact)) error {
	mu.Lock()
	from := *last
	mu.Unlock()
	var entries []Entry
	err := log.AuditEntries(ctx, subject, from, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, e := range entries {
		if e.Seq <= *last {
			continue // another goroutine was faster
		}
		var fact Fact
		if err := json.Unmarshal(e.Body, &fact); err != nil {
			return fmt.Errorf("read %s: audit entry %d: %w", subject, e.Seq, err)
		}
		apply(e, fact)
		*last = e.Seq
	}
	return nil
}
