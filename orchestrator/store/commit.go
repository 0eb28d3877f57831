package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// request is one caller's part of a commit. check and write run in the committer's transaction; check sees the writes of earlier
// requests of the same commit, and its error refuses this request alone. An error of write undoes the commit.
// A request with work instead has the committer to itself for that long.
type request struct {
	check func(*bbolt.Tx) error
	write func(*bbolt.Tx) error
	work  func() error
	done  chan error // buffered
}

// maxGroup bounds the requests of one commit, so that the first does not wait for ever.
const maxGroup = 512

// commitRequest hands a request to the committer and waits until it is on disk or refused. A ctx that ends before the request
// was taken withdraws it; one that was taken is waited for, because its outcome is a fact.
func (s *Store) commitRequest(ctx context.Context, q *request) error {
	if s.readOnly {
		return ErrReadOnly
	}
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

// runAlone runs work while nothing is committed.
func (s *Store) runAlone(ctx context.Context, work func() error) error {
	if s.readOnly {
		return work()
	}
	return s.commitRequest(ctx, &request{work: work})
}

// commitLoop is the drain-loop group committer: it takes one request, then all that wait behind it, and commits them
// with one fsync. Alone a caller pays one commit; in company they share it, with no delay in either case.
func (s *Store) commitLoop() {
	for {
		var group []*request
		var alone *request
		asked := 0
		for alone == nil && len(group) < maxGroup {
			q, ok := s.nextRequest(len(group) == 0)
			if !ok && len(group) > asked {
				asked = len(group)
				runtime.Gosched() // requests that are about to come share the fsync
				continue
			}
			if !ok {
				break
			}
			if q.work != nil {
				alone = q
				break
			}
			group = append(group, q)
		}
		if len(group) == 0 && alone == nil {
			return
		}
		s.commitGroup(group)
		if alone != nil {
			alone.done <- alone.work()
		}
	}
}

// nextRequest takes a request; when it may wait there is none only after Close.
func (s *Store) nextRequest(wait bool) (q *request, ok bool) {
	if !wait {
		select {
		case q = <-s.requests:
			return q, true
		default:
			return nil, false
		}
	}
	select {
	case q = <-s.requests:
		return q, true
	case <-s.stop:
		return nil, false
	}
}

// commitGroup answers every request of the group exactly once. A request that is refused is answered after the commit, too: its
// refusal may depend on the write of an earlier request of the group, which is neither visible nor durable before.
func (s *Store) commitGroup(group []*request) {
	for len(group) > 0 {
		refusals, offender, err := s.writeGroup(group)
		if offender != nil { // try again without it; nothing was written
			offender.done <- err
			group = slices.DeleteFunc(group, func(q *request) bool { return q == offender })
			continue
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("commit to %s: %w", s.path, classifyError(err)), s.reopenFile())
		}
		for _, q := range group {
			q.done <- cmp.Or(err, refusals[q])
		}
		if err == nil && len(refusals) < len(group) {
			s.tails.announce()
		}
		return
	}
}

// writeGroup runs the group in one transaction. It returns the errors of the checks that failed; offender is the request whose
// write failed. An error without an offender is that of the commit.
func (s *Store) writeGroup(group []*request) (refusals map[*request]error, offender *request, err error) {
	s.mu.RLock()
	db := s.db
	s.mu.RUnlock()
	if db == nil { // a former commit failed and the file could not be opened again
		if err := s.reopenFile(); err != nil {
			return nil, nil, err
		}
		db = s.db // only this goroutine replaces it
	}
	var tx *bbolt.Tx
	var written func()
	refusals = map[*request]error{}
	err = recoverPanic(func() (err error) {
		if tx, err = db.Begin(true); err != nil {
			return err
		}
		if written, err = s.putWaiting(tx); err != nil { // a damaged audit log, which Check reports, does not stop the journal
			s.behind.drop(maxBehind, 0)
			written = func() {}
			if err := tx.Rollback(); err != nil {
				return err
			}
			if tx, err = db.Begin(true); err != nil {
				return err
			}
		}
		for _, q := range group {
			if err := q.check(tx); err != nil {
				refusals[q] = err
				continue
			}
			if err := q.write(tx); err != nil {
				offender = q
				return errors.Join(err, tx.Rollback())
			}
		}
		if len(refusals) == len(group) {
			return tx.Rollback()
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		written()
		return nil
	})
	if offender == nil && errors.Is(err, ErrDamaged) && tx != nil { // cut off anywhere
		err = errors.Join(err, s.rollBack(tx))
	}
	return refusals, offender, err
}

// rollBack ends a transaction in which bbolt broke. If not even that is possible the file is left as it is, with its
// lock, until the process ends: closing it would wait for the transaction.
func (s *Store) rollBack(tx *bbolt.Tx) error {
	err := recoverPanic(tx.Rollback)
	if err == nil || errors.Is(err, bolterrors.ErrTxClosed) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.cause = nil, err
	return err
}

// reopenPatience is how long a lock may take that a moment ago was ours.
const reopenPatience = 5 * time.Second

// reopenFile closes the file and opens it again: after a failed write or fsync neither bbolt's pages in memory nor the
// kernel's can be trusted to be what is on disk. Readers wait until it is open.
func (s *Store) reopenFile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		// A file that cannot even be closed is given up; its lock would show in openFile.
		err := recoverPanic(s.db.Close)
		s.db, s.cause = nil, err
		if err != nil {
			return fmt.Errorf("close store: %w", err)
		}
	}
	dropCache(s.path)
	db, err := openFile(s.path, reopenPatience, false)
	if err != nil {
		s.cause = err
		return err
	}
	s.db, s.cause = db, nil
	return nil
}
