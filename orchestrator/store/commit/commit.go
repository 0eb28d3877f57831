// Package commit is the one writer of a database. Start with [Committer]. It commits the requests of many callers in groups, each with one
// transaction, and tells readers of each commit. It knows nothing of the records that requests write.
package commit

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

// Request is one caller's part of a commit. Check and Write run in the committer's transaction; Check sees the writes of earlier
// requests of the same commit, and its error refuses this request alone. An error of Write undoes the commit.
type Request struct {
	Reads []kv.Key // that Check and Write read, as far as they are known before
	Check func(kv.Tx) error
	Write func(kv.Tx) error
	work  func() error // instead of both: the request has the committer to itself for that long
	done  chan error   // buffered
}

// Waiting holds records that the next commit of anything takes along, before its own writes.
type Waiting interface {
	// Put writes them. written is called after the commit.
	Put(tx kv.Tx) (written func(), err error)
	// Drop forgets them, because Put fails.
	Drop()
}

// Committer owns the requests of a database, and the signal that there is something new to read. It is safe for concurrent use; Close it
// once.
type Committer struct {
	db       kv.DB
	waiting  Waiting
	requests chan *Request
	stop     chan struct{} // closed by Close
	stopped  chan struct{} // closed when the loop has ended
	tails    notifier
}

// New returns the committer of a database.
func New(db kv.DB, waiting Waiting) *Committer {
	c := &Committer{
		db: db, waiting: waiting,
		requests: make(chan *Request), stop: make(chan struct{}), stopped: make(chan struct{}),
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

// Close ends the committer, waits for it, closes the database and wakes all readers. Requests that were not taken get kv.ErrClosed.
func (c *Committer) Close() error {
	close(c.stop)
	<-c.stopped
	defer c.tails.close()
	return c.db.Close()
}

// Announce wakes the readers that wait, as a commit does: another process has committed.
func (c *Committer) Announce() { c.tails.announce() }

// Changed returns a channel that is closed when there is something new to read.
func (c *Committer) Changed() <-chan struct{} { return c.tails.nextChange() }

// maxGroup bounds the requests of one commit, so that the first does not wait for ever.
const maxGroup = 512

// Commit hands a request to the committer and waits until it is on disk or refused. A ctx that ends before the request
// was taken withdraws it; one that was taken is waited for, because its outcome is a fact.
func (c *Committer) Commit(ctx context.Context, q *Request) error {
	if c.db.ReadOnly() {
		return kv.ErrReadOnly
	}
	q.done = make(chan error, 1)
	select {
	case c.requests <- q:
		return <-q.done
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stop:
		return kv.ErrClosed
	}
}

// RunAlone runs work while nothing is committed.
func (c *Committer) RunAlone(ctx context.Context, work func() error) error {
	if c.db.ReadOnly() {
		return work()
	}
	return c.Commit(ctx, &Request{work: work})
}

// commitLoop is the drain-loop group committer: it takes one request, then all that wait behind it, and commits them
// with one fsync. Alone a caller pays one commit; in company they share it, with no delay in either case.
func (c *Committer) commitLoop() {
	for {
		var group []*Request
		var alone *Request
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
func (c *Committer) nextRequest(wait bool) (q *Request, ok bool) {
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
func (c *Committer) commitGroup(group []*Request) {
	for len(group) > 0 {
		refusals, offender, err := c.writeGroup(group)
		if offender != nil { // try again without it; nothing was written
			offender.done <- err
			group = slices.DeleteFunc(group, func(q *Request) bool { return q == offender })
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
func (c *Committer) writeGroup(group []*Request) (refusals map[*Request]error, offender *Request, err error) {
	var written func()
	err = c.db.Update(func(tx kv.Tx) (err error) {
		written, err = c.waiting.Put(tx)
		if err != nil {
			return fmt.Errorf("%w: %w", errWaiting, err)
		}
		refusals = map[*Request]error{}
		var reads []kv.Key
		for _, q := range group {
			reads = append(reads, q.Reads...)
		}
		tx.Fetch(reads...)
		for _, q := range group {
			if err := q.Check(tx); err != nil {
				refusals[q] = err
				continue
			}
			if err := q.Write(tx); err != nil {
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
	case errors.Is(err, errWaiting): // such as a damaged audit log, which a check reports: it does not stop the requests
		c.waiting.Drop()
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
	errWaiting = errors.New("the records that wait cannot be written")
	errRefused = errors.New("every request was refused")
)
