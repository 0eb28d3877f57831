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

// pendingCall is one call in progress in a shared exec. The reader of stdout owns seen until done is closed or the call is
// removed from live.
type pendingCall struct {
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

// settleResult takes the result line. If the session reports that the skill printed no result, only the exit code is kept, as
// with a process of the call's own.
func (p *pendingCall) settleResult(r *protocol.SessionResult) {
	p.exit = r.Exit
	p.seen.sole = r.Outbox
	switch e := r.Error; {
	case e != nil && e.Code == protocol.CodeResultTooLong:
		p.seen.long = true
	case e == nil || e.Code != protocol.CodeNoResult && e.Code != protocol.CodeSkillMissing:
		p.seen.result = &r.Result
	}
}

// takeRecord hands an event on, and begins to count the time of a call that goes on after WAITING.
func (p *pendingCall) takeRecord(rec *protocol.Record) {
	p.seen.takeEvent(rec.Event, rec.Problems)
	if p.seen.waiting != nil && p.limit == nil && p.done != nil {
		p.limit = time.AfterFunc(p.seen.grace, func() { close(p.stays) })
	}
}

// takeOutput takes the output of a call that is not an event. A line of a program's stdout may be an event all the same: one that
// names no call or another's, and is judged like any that such a program prints.
func (p *pendingCall) takeOutput(o protocol.SessionOutput) {
	if o.Stderr != nil {
		_, _ = io.WriteString(p.stderr, *o.Stderr) // it is a log
	}
	if o.Stdout == nil {
		return
	}
	scanner := protocol.NewScanner(strings.NewReader(*o.Stdout + "\n"))
	var rec protocol.Record
	for scanner.Read(&rec) == nil {
		if rec.Kind == protocol.KindEvent {
			p.takeRecord(&rec)
		} else if _, ok := protocol.DecodeResult(rec.Bytes); !ok { // the result comes in a line of its own
			p.seen.handleRecord(&rec, p.output)
		}
	}
}

// callSkill makes one call and waits for its end. It returns the results of execSkill, or
// errNotBegun.
func (e *sharedExec) callSkill(parent context.Context, c lattice.Call, seen *observer) (int, error) {
	ctx, cancel := withDeadline(parent, c)
	defer cancel()
	p := &pendingCall{
		call: c, seen: seen, output: e.s.output(c.RunID, c.Node), stderr: e.s.output(c.RunID, c.Node), token: rand.Text(), done: make(chan struct{}), stays: make(chan struct{}),
	}
	defer flushOutput(p.output, p.stderr)
	line, err := encodeRequest(c, p.token)
	if err != nil {
		return 0, fmt.Errorf("encode a call: %w", err)
	}
	if !e.addCall(p) {
		return 0, errNotBegun
	}
	e.stdin.putLine(line)
	overstayed := false
	select {
	case <-p.done:
		return e.concludeAnswered(parent, p)
	case <-e.ended:
		return e.judgeLost(parent, p)
	case <-p.stays:
		overstayed = true
	case <-ctx.Done():
	}
	e.giveUp(p)
	switch {
	case parent.Err() != nil:
		return 0, parent.Err()
	case overstayed:
		e.s.retireShared(parent, e)
		return protocol.ExitWaiting, errOverstayed
	}
	return protocol.ExitTimeout, errTimeout
}

// encodeRequest encodes a call as the session reads it. The timeout in it applies only after a lost connection; before that
// the session's client ends the call.
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

// concludeAnswered returns the exit code of a call that has its result. After a call that waits, a boundary follows, so the
// shared exec ends.
func (e *sharedExec) concludeAnswered(ctx context.Context, p *pendingCall) (int, error) {
	switch p.exit {
	case refused:
		return 0, errNotBegun
	case protocol.ExitWaiting:
		e.s.retireShared(ctx, e)
	}
	return p.exit, nil
}

// addCall adds a call. It returns false if the process refuses new calls.
func (e *sharedExec) addCall(p *pendingCall) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.live[p.call.ID] != nil {
		return false
	}
	e.idle.Stop()
	e.live[p.call.ID] = p
	return true
}

// removeCall removes a call, so that its observer may be used again.
func (e *sharedExec) removeCall(p *pendingCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[p.call.ID] == p {
		e.forgetCall(p)
	}
}

// judgeLost finds the outcome of a call whose shared process has ended or is lost.
func (e *sharedExec) judgeLost(ctx context.Context, p *pendingCall) (int, error) {
	e.removeCall(p)
	select {
	case <-p.done: // its result was the last word
		return e.concludeAnswered(ctx, p)
	default:
	}
	e.mu.Lock()
	ready, crowd := e.ready, e.crowd
	e.mu.Unlock()
	var lost *sprites.LostError
	switch {
	case errors.As(e.err, &lost):
		p.seen.inShared = true
		return 0, e.err
	case e.err != nil:
		return 0, e.err
	case !ready: // an old spritekit, or none
		e.s.refuseShared(e.sprite)
		return 0, errNotBegun
	case e.exit == protocol.ExitOK || e.exit == protocol.ExitWaiting: // it answered all calls that it took
		return 0, errNotBegun
	case crowd && p.call.Class == manifests.ClassRead: // one of them ended it; the others can be repeated
		return 0, errNotBegun
	case crowd:
		p.seen.inShared = true
		return 0, &sprites.LostError{Session: e.id, Err: fmt.Errorf("the session ended with exit code %d while several calls were under way", e.exit)}
	}
	return e.judgeCrash(ctx, p)
}

// judgeCrash judges the only call in progress when the shared process crashed. If the call had begun, the exit code is taken
// to be the call's. A built-in skill begins with an event in the outbox.
func (e *sharedExec) judgeCrash(ctx context.Context, p *pendingCall) (int, error) {
	if p.seen.counted == 0 {
		if err := e.s.reconcileOutbox(ctx, p.call, p.seen); err != nil {
			return 0, err
		}
	}
	if p.seen.counted > 0 {
		return e.exit, nil
	}
	if _, ours := manifests.Lookup(p.call.Skill); ours || p.call.Class == manifests.ClassRead {
		return 0, errNotBegun
	}
	p.seen.inShared = true
	return 0, &sprites.LostError{Session: e.id, Err: fmt.Errorf("the session ended with exit code %d before it said whether the call had begun", e.exit)}
}

// giveUp cancels an abandoned call. It kills the shared process if that does not end the call in time, or if the process
// is closed or has not introduced itself.
func (e *sharedExec) giveUp(p *pendingCall) {
	cancel, err := json.Marshal(protocol.SessionCancel{Cancel: p.call.ID})
	if err == nil {
		e.stdin.putLine(append(cancel, '\n'))
	}
	e.mu.Lock()
	hears := e.ready && !e.closed
	e.mu.Unlock()
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	if hears {
		select {
		case <-p.done:
			return
		case <-e.ended:
		case <-late.C:
		}
	}
	e.removeCall(p)
	e.killProcess(p.call)
}

// disconnectGrace is how long a remote host may keep the process after a cut: until its own timeout, plus a little.
func disconnectGrace(c lattice.Call) time.Duration {
	if c.TimeoutS <= 0 {
		return time.Hour
	}
	return callTimeout(c) + 30*time.Second
}
