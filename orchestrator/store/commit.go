package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// request is one caller's part of a commit. check and write run in the committer's transaction; check sees what earlier
// requests of the same commit wrote, and its error refuses this request alone. An error of write undoes the commit.
type request struct {
	check func(*bbolt.Tx) error
	write func(*bbolt.Tx) error
	done  chan error // buffered
}

// maxGroup bounds the requests of one commit, so that the first does not wait for ever.
const maxGroup = 512

// commit hands a request to the committer and waits until it is on disk or refused. A ctx that ends before the request
// was taken withdraws it; one that was taken is waited for, because its outcome is a fact.
func (s *Store) commit(ctx context.Context, q *request) error {
	q.done = make(chan error, 1)
	select {
	case s.requests <- q:
		return <-q.done
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return ErrClosed
	}
}

// commitLoop is the drain-loop group committer: it takes one request, then all that wait behind it, and commits them
// with one fsync. Alone a caller pays one commit; in company they share it, with no delay in either case.
func (s *Store) commitLoop() {
	for {
		var group []*request
		select {
		case q := <-s.requests:
			group = append(group, q)
		case <-s.stop:
			return
		}
	drain:
		for len(group) < maxGroup {
			select {
			case q := <-s.requests:
				group = append(group, q)
			default:
				break drain
			}
		}
		s.commitGroup(group)
	}
}

// commitGroup answers every request of the group exactly once.
func (s *Store) commitGroup(group []*request) {
	for len(group) > 0 {
		accepted, offender, err := s.transact(group)
		if offender != nil { // try again without it; nothing was written
			offender.done <- err
			rest := group[:0]
			for _, q := range group {
				if q != offender && !q.refused() {
					rest = append(rest, q)
				}
			}
			group = rest
			continue
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("commit to %s: %w", s.path, err), s.reopen())
		}
		for _, q := range accepted {
			q.done <- err
		}
		if err == nil && len(accepted) > 0 {
			s.tails.notify()
		}
		return
	}
}

// refused reports whether the request has its answer already.
func (q *request) refused() bool { return len(q.done) > 0 }

// transact runs the group in one transaction. It answers the requests whose check fails; offender is one whose write
// failed.
func (s *Store) transact(group []*request) (accepted []*request, offender *request, err error) {
	s.mu.RLock()
	db := s.db
	s.mu.RUnlock()
	if db == nil { // a former commit failed and the file could not be opened again
		if err := s.reopen(); err != nil {
			return group, nil, err
		}
		db = s.db // only this goroutine replaces it
	}
	tx, err := db.Begin(true)
	if err != nil {
		return group, nil, err
	}
	for _, q := range group {
		if err := q.check(tx); err != nil {
			q.done <- err
			continue
		}
		if err := q.write(tx); err != nil {
			return nil, q, errors.Join(err, tx.Rollback())
		}
		accepted = append(accepted, q)
	}
	if len(accepted) == 0 {
		return nil, nil, tx.Rollback()
	}
	return accepted, nil, tx.Commit()
}

// reopen closes the file and opens it again: after a failed write or fsync neither bbolt's pages in memory nor the
// kernel's can be trusted to be what is on disk. Readers wait meanwhile.
func (s *Store) reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		// A file that cannot even be closed is given up; its lock would show in openFile.
		err := s.db.Close()
		s.db = nil
		if err != nil {
			return fmt.Errorf("close store: %w", err)
		}
	}
	db, err := openFile(s.path, 5*time.Second)
	if err != nil {
		return err
	}
	s.db = db
	return nil
}
