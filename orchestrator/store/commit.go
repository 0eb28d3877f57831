package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// request is one caller's part of a commit. check and write run in the committer's transaction; check sees the writes of earlier
// requests of the same commit, and its error refuses this request alone. An error of write undoes the commit.
// A request with work instead has the committer to itself for that long.
type request struct {
	reads []kv.Key // that check and write read, as far as they are known before
	check func(kv.Tx) error
	write func(kv.Tx) error
	work  func() error
	done  chan error // buffered
}

// committer is the one writer of a store: it owns the requests, the audit entries that wait for a commit, and the signal that there is
// something new to read.
type committer struct {
	db       kv.DB
	requests chan *request
	stop     chan struct{} // closed by end
	stopped  chan struct{} // closed when the loop has ended

	tails  notifier
	behind behind
	tally  tally
}

func newCommitter(db kv.DB) *committer {
	c := &committer{
		db:       db,
		requests: make(chan *request), stop: make(chan struct{}), stopped: make(chan struct{}),
		tails: notifier{signal: make(chan struct{})},
	}
	if db.ReadOnly() {
		close(c.stopped)
		return c
	}
	go func() {
		defer close(c.stopped)
		c.commitLoop()
	}()
	return c
}

// endLoop writes the audit entries that wait, ends the loop and waits for it.
func (c *committer) endLoop() {
	_ = c.flushAudit() // on a full disk they are lost, as after a crash
	close(c.stop)
	<-c.stopped
}

// maxGroup bounds the requests of one commit, so that the first does not wait for ever.
const maxGroup = 512

// commitRequest hands a request to the committer and waits until it is on disk or refused. A ctx that ends before the request
// was taken withdraws it; one that was taken is waited for, because its outcome is a fact.
func (c *committer) commitRequest(ctx context.Context, q *request) error {
	if c.db.ReadOnly() {
		return ErrReadOnly
	}
	q.done = make(chan error, 1)
	select {
	case c.requests <- q:
		return <-q.done
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stop:
		return ErrClosed
	}
}

// runAlone runs work while nothing is committed.
func (c *committer) runAlone(ctx context.Context, work func() error) error {
	if c.db.ReadOnly() {
		return work()
	}
	return c.commitRequest(ctx, &request{work: work})
}

// commitLoop is the drain-loop group committer: it takes one request, then all that wait behind it, and commits them
// with one fsync. Alone a caller pays one commit; in company they share it, with no delay in either case.
func (c *committer) commitLoop() {
	for {
		var group []*request
		var alone *request
		asked := 0
		for alone == nil && len(group) < maxGroup {
			q, ok := c.nextRequest(len(group) == 0)
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
		c.commitGroup(group)
		if alone != nil {
			alone.done <- alone.work()
		}
	}
}

// nextRequest takes a request; when it may wait there is none only after Close.
func (c *committer) nextRequest(wait bool) (q *request, ok bool) {
	if !wait {
		select {
		case q = <-c.requests:
			return q, true
		default:
			return nil, false
		}
	}
	select {
	case q = <-c.requests:
		return q, true
	case <-c.stop:
		return nil, false
	}
}

// commitGroup answers every request of the group exactly once. A request that is refused is answered after the commit, too: its
// refusal may depend on the write of an earlier request of the group, which is neither visible nor durable before.
func (c *committer) commitGroup(group []*request) {
	for len(group) > 0 {
		refusals, offender, err := c.writeGroup(group)
		if offender != nil { // try again without it; nothing was written
			offender.done <- err
			group = slices.DeleteFunc(group, func(q *request) bool { return q == offender })
			continue
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("commit to %s: %w", c.db.Name(), bolt.ClassifyError(err)), c.db.Reopen())
		}
		for _, q := range group {
			q.done <- cmp.Or(err, refusals[q])
		}
		if err == nil && len(refusals) < len(group) {
			c.tails.announce()
		}
		return
	}
}

// writeGroup runs the group in one transaction. It returns the errors of the checks that failed; offender is the request whose
// write failed. An error without an offender is that of the commit.
func (c *committer) writeGroup(group []*request) (refusals map[*request]error, offender *request, err error) {
	var written func()
	err = c.db.Update(func(tx kv.Tx) (err error) {
		written, err = c.putWaiting(tx)
		if err != nil {
			return fmt.Errorf("%w: %w", errBehind, err)
		}
		refusals = map[*request]error{}
		var reads []kv.Key
		for _, q := range group {
			reads = append(reads, q.reads...)
		}
		tx.Fetch(reads...)
		for _, q := range group {
			if err := q.check(tx); err != nil {
				refusals[q] = err
				continue
			}
			if err := q.write(tx); err != nil {
				offender = q
				return err
			}
		}
		if len(refusals) == len(group) {
			return errRefused
		}
		return nil
	})
	switch {
	case errors.Is(err, errBehind): // a damaged audit log, which Check reports, does not stop the journal
		c.behind.drop(maxBehind, 0)
		return c.writeGroup(group)
	case errors.Is(err, errRefused):
		return refusals, nil, nil
	case err == nil:
		written()
	}
	return refusals, offender, err
}

// Reasons to undo a transaction.
var (
	errBehind  = errors.New("the audit entries that wait cannot be written")
	errRefused = errors.New("every request was refused")
)
