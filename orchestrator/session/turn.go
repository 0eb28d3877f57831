package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// turn is one call in a kit. The kit's reader owns seen until done is closed or the turn is taken out of live.
type turn struct {
	call   lattice.Call
	seen   *observer
	output io.Writer // takes stdout
	stderr io.Writer
	token  string
	done   chan struct{} // closed when the result line is there
	exit   int           // set before done is closed
	// stays is closed when the call has said WAITING and goes on for too long; limit closes it.
	stays chan struct{}
	limit *time.Timer
}

// refused stands for the exit code of a call that was not taken.
const refused = -1

// settleResult takes the result line. Where there was no result it is the kit's own word, and what a process of the call's own
// would have told is left: its exit code.
func (t *turn) settleResult(r *protocol.SessionResult) {
	t.exit = r.Exit
	t.seen.sole = r.Outbox
	switch e := r.Error; {
	case e != nil && e.Code == protocol.CodeResultTooLong:
		t.seen.long = true
	case e == nil || e.Code != protocol.CodeNoResult && e.Code != protocol.CodeSkillMissing:
		t.seen.result = &r.Result
	}
}

// takeRecord hands an event on, and begins to count the time of a call that goes on after WAITING.
func (t *turn) takeRecord(rec *protocol.Record) {
	t.seen.takeEvent(rec.Event, rec.Problems)
	if t.seen.waiting != nil && t.limit == nil && t.done != nil {
		t.limit = time.AfterFunc(t.seen.grace, func() { close(t.stays) })
	}
}

// takeOutput takes what a call said beside its events. A line of a program's stdout may be an event all the same: one that
// names no call or another's, and is judged like any that such a program prints.
func (t *turn) takeOutput(o protocol.SessionOutput) {
	if o.Stderr != nil {
		_, _ = io.WriteString(t.stderr, *o.Stderr) // it is a log
	}
	if o.Stdout == nil {
		return
	}
	scanner := protocol.NewScanner(strings.NewReader(*o.Stdout + "\n"))
	var rec protocol.Record
	for scanner.Read(&rec) == nil {
		if rec.Kind == protocol.KindEvent {
			t.takeRecord(&rec)
		} else if _, ok := protocol.DecodeResult(rec.Bytes); !ok { // the kit itself tells what the result is
			t.seen.handleRecord(&rec, t.output)
		}
	}
}

// callSkill makes one call and waits for its end. It returns what exec returns for a process of the call's own, or
// errNotBegun.
func (k *kit) callSkill(parent context.Context, c lattice.Call, seen *observer) (int, error) {
	ctx, cancel := withDeadline(parent, c)
	defer cancel()
	t := &turn{
		call: c, seen: seen, output: k.s.output(c.RunID), stderr: k.s.output(c.RunID), token: rand.Text(), done: make(chan struct{}), stays: make(chan struct{}),
	}
	defer flushOutput(t.output, t.stderr)
	line, err := encodeRequest(c, t.token)
	if err != nil {
		return 0, fmt.Errorf("encode a call: %w", err)
	}
	if !k.joinTurn(t) {
		return 0, errNotBegun
	}
	k.stdin.putLine(line)
	overstayed := false
	select {
	case <-t.done:
		return k.concludeTurn(parent, t)
	case <-k.ended:
		return k.judgeLost(parent, t)
	case <-t.stays:
		overstayed = true
	case <-ctx.Done():
	}
	k.giveUp(t)
	switch {
	case parent.Err() != nil:
		return 0, parent.Err()
	case overstayed:
		k.s.retireKit(parent, k)
		return protocol.ExitWaiting, errOverstayed
	}
	return protocol.ExitTimeout, errTimeout
}

// encodeRequest is a call as the kit is sent it. It ends the call itself only when nobody is there to do it: after a cut.
func encodeRequest(c lattice.Call, token string) ([]byte, error) {
	permissions := c.Permissions
	if permissions == nil {
		permissions = []string{}
	}
	call := protocol.SessionCall{
		CallID: c.ID, Skill: c.Skill, Input: c.Input, WorkItemID: c.WorkItem, RunID: c.RunID, IdempotencyKey: c.IdempotencyKey,
		Permissions: &permissions, Token: token,
	}
	if c.TimeoutS > 0 {
		call.TimeoutS = disconnectGrace(c).Seconds()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(call)
	return b.Bytes(), err
}

// concludeTurn ends the turn of a call that has its result. After a call that waits, a boundary follows and the kit ends.
func (k *kit) concludeTurn(ctx context.Context, t *turn) (int, error) {
	switch t.exit {
	case refused:
		return 0, errNotBegun
	case protocol.ExitWaiting:
		k.s.retireKit(ctx, k)
	}
	return t.exit, nil
}

// joinTurn adds a call. It returns false if the kit refuses new calls.
func (k *kit) joinTurn(t *turn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.live[t.call.ID] != nil {
		return false
	}
	k.idle.Stop()
	k.live[t.call.ID] = t
	return true
}

// leaveTurn removes a turn, so that the caller may use its observer again.
func (k *kit) leaveTurn(t *turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live[t.call.ID] == t {
		k.forgetTurn(t)
	}
}

// judgeLost finds the outcome of a call whose kit has ended or is lost.
func (k *kit) judgeLost(ctx context.Context, t *turn) (int, error) {
	k.leaveTurn(t)
	select {
	case <-t.done: // its result was the last word
		return k.concludeTurn(ctx, t)
	default:
	}
	k.mu.Lock()
	ready, crowd := k.ready, k.crowd
	k.mu.Unlock()
	var lost *sprites.LostError
	switch {
	case errors.As(k.err, &lost):
		t.seen.inKit = true
		return 0, k.err
	case k.err != nil:
		return 0, k.err
	case !ready: // an old spritekit, or none
		k.s.refuseKits(k.sprite)
		return 0, errNotBegun
	case k.exit == protocol.ExitOK || k.exit == protocol.ExitWaiting: // it has answered all that it took
		return 0, errNotBegun
	case crowd && t.call.Class == manifests.ClassRead: // one of them was its end; the others are as good as never made
		return 0, errNotBegun
	case crowd:
		t.seen.inKit = true
		return 0, &sprites.LostError{Session: k.id, Err: fmt.Errorf("the session ended with exit code %d while several calls were under way", k.exit)}
	}
	return k.judgeCrash(ctx, t)
}

// judgeCrash judges the one call that was under way when its kit came to a bad end: it was that call's own, as it would have
// been a process of its own's, if the call had begun. A skill of ours begins with an event in the outbox.
func (k *kit) judgeCrash(ctx context.Context, t *turn) (int, error) {
	if t.seen.counted == 0 {
		if err := k.s.reconcileOutbox(ctx, t.call, t.seen); err != nil {
			return 0, err
		}
	}
	if t.seen.counted > 0 {
		return k.exit, nil
	}
	if _, ours := manifests.Lookup(t.call.Skill); ours || t.call.Class == manifests.ClassRead {
		return 0, errNotBegun
	}
	t.seen.inKit = true
	return 0, &sprites.LostError{Session: k.id, Err: fmt.Errorf("the session ended with exit code %d before it said whether the call had begun", k.exit)}
}

// giveUp ends a call that nobody waits for any more, and the kit where that does not end it. A kit that has said nothing
// yet may never do so, and one that was closed is told nothing any more.
func (k *kit) giveUp(t *turn) {
	cancel, err := json.Marshal(protocol.SessionCancel{Cancel: t.call.ID})
	if err == nil {
		k.stdin.putLine(append(cancel, '\n'))
	}
	k.mu.Lock()
	hears := k.ready && !k.closed
	k.mu.Unlock()
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	if hears {
		select {
		case <-t.done:
			return
		case <-k.ended:
		case <-late.C:
		}
	}
	k.leaveTurn(t)
	k.killProcess(t.call)
}
