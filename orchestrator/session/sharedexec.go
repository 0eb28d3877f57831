package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// sharedExec is a multiplexed exec: one "spritekit session" in a sprite, which serves many calls (DESIGN 17). Its goroutine,
// run, ends with the process; the Session owns it and waits for it.
type sharedExec struct {
	s      *Session
	sprite string
	grace  time.Duration // how long the host lets it run after a cut
	output io.Writer     // of the run that it was opened for
	stderr io.Writer     // of the same run
	stdin  *feed
	cut    context.CancelFunc // gives the connection up
	ended  chan struct{}      // closed when the process has ended, or is lost
	// exit and err are the outcome of Exec; read after ended.
	exit int
	err  error

	mu     sync.Mutex // guards the fields below
	id     string     // of the host's session, "" while it is not known
	ready  bool       // it has introduced itself
	closed bool       // it takes no more calls
	live   map[string]*pendingCall
	crowd  bool // more than one call was under way when it ended
	idle   *time.Timer
}

var (
	// errNotBegun says that the process never took the call: it may be made elsewhere, no matter its class.
	errNotBegun = errors.New("the session did not take the call")
	// sharedCommand serves concurrent calls. The engine limits their number.
	sharedCommand = [...]string{"/skills/spritekit", "session", "--parallel", "64"}
)

const (
	// idleTimeout is how long a shared exec without calls stays open. The next call opens another.
	idleTimeout = 30 * time.Second
	// minGrace is the shortest time that the host lets a shared exec run after a lost connection. Without calls the process ends
	// earlier by itself.
	minGrace = time.Hour
)

// run runs the process and reads its stdout until it ends.
func (e *sharedExec) run(ctx context.Context) {
	defer close(e.ended)
	defer flushOutput(e.output, e.stderr)
	defer e.stdin.end() // it has no reader any more
	named, ended, err := e.s.registry.registerProcess(ctx, e.sprite, "session "+rand.Text())
	if err != nil {
		e.err = err
		return
	}
	defer ended()
	stdout, feed := io.Pipe()
	var exec sync.WaitGroup
	exec.Go(func() {
		e.exit, e.err = e.s.host.Exec(ctx, e.sprite, sprites.Exec{
			Cmd:   sharedCommand[:],
			Env:   []string{"LATTICE_SPRITE_ID=" + e.sprite, "LATTICE_PERMISSIONS="}, // the rest is each call's
			Dir:   workspace,
			Stdin: e.stdin, Stdout: feed, Stderr: e.stderr,
			MaxRunAfterDisconnect: e.grace,
			OnSession: func(id string) {
				e.mu.Lock()
				e.id = id
				e.mu.Unlock()
				named(id)
			},
		})
		feed.CloseWithError(io.EOF)
	})
	e.readStdout(stdout)
	exec.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.crowd = true, len(e.live) > 1
	e.idle.Stop()
}

// readStdout passes the records of the process to their calls.
func (e *sharedExec) readStdout(stdout *io.PipeReader) {
	scanner := protocol.NewScanner(stdout)
	var rec protocol.Record
	for {
		if err := scanner.Read(&rec); err != nil {
			stdout.CloseWithError(err) // unblocks the writer
			return
		}
		e.mu.Lock()
		e.handleRecord(&rec)
		e.mu.Unlock()
	}
}

// handleRecord handles one line. It requires mu.
func (e *sharedExec) handleRecord(rec *protocol.Record) {
	switch rec.Kind {
	case protocol.KindEvent:
		if p := e.findCall(rec.Event.CallID); p != nil {
			p.seen.outbox = rec.Event.CallID == "" && len(e.live) > 1 // it may be another's
			p.takeRecord(rec)
			p.seen.outbox = false
			return
		}
		fmt.Fprintf(e.output, "sprite %s: an event came when no call was under way\n", e.sprite)
	case protocol.KindWarning:
		fmt.Fprintf(e.output, "sprite %s: line %d: %s: %s\n", e.sprite, rec.Line, rec.Code, rec.Detail)
	case protocol.KindOutput:
		line, ok := protocol.DecodeSessionLine(rec.Bytes)
		switch {
		case !ok:
			fmt.Fprintf(e.output, "%s\n", rec.Bytes)
		case line.Note != nil:
			e.handleNote(*line.Note)
		case line.Output != nil:
			if p := e.live[line.Output.CallID]; p != nil {
				p.takeOutput(*line.Output)
			}
		default:
			e.handleResult(line.Result)
		}
	}
}

// findCall returns the call that an event names, or else any call in progress, which flags the event.
func (e *sharedExec) findCall(id string) *pendingCall {
	if p := e.live[id]; p != nil {
		return p
	}
	for _, p := range e.live {
		return p
	}
	return nil
}

func (e *sharedExec) handleNote(n protocol.SessionNote) {
	switch n.Session {
	case protocol.SessionReady:
		e.ready = true
	case protocol.SessionRefused:
		if p := e.live[n.CallID]; p != nil { // another version: it does not understand the request
			p.exit = refused
			e.finishCall(p)
		}
	}
}

// handleResult ends a call. Only the shared process knows the token that was sent with the call, so other programs in the
// sprite that write to its stdout cannot end a call.
func (e *sharedExec) handleResult(r *protocol.SessionResult) {
	p := e.live[r.CallID]
	if p == nil || p.token != r.Token {
		fmt.Fprintf(e.output, "sprite %s: a result came that no call waits for\n", e.sprite)
		return
	}
	p.settleResult(r)
	e.finishCall(p)
}

// finishCall removes a call that has its result and wakes the goroutine that waits for it. It requires mu.
func (e *sharedExec) finishCall(p *pendingCall) {
	e.forgetCall(p)
	close(p.done)
}

func (e *sharedExec) forgetCall(p *pendingCall) {
	delete(e.live, p.call.ID)
	if p.limit != nil {
		p.limit.Stop()
	}
	if len(e.live) == 0 && !e.closed {
		e.idle.Reset(idleTimeout)
	}
}

// killProcess kills a shared process that does not end by itself, and thereby its calls.
func (e *sharedExec) killProcess(c lattice.Call) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.s.dropShared(e)
	e.cut()
	<-e.ended
	e.s.stopProcess(context.Background(), c, process{shared: true})
}

// close makes the process refuse new calls and end after those in progress. It reports whether there are any.
func (e *sharedExec) close() (busy bool) {
	e.mu.Lock()
	e.closed = true
	e.idle.Stop()
	busy = len(e.live) > 0
	e.mu.Unlock()
	e.stdin.end()
	return busy
}

// awaitEnd closes the shared exec and waits for its process for at most timeout. It reports false if the process still
// runs. If calls are in progress, awaitEnd returns at once: the process ends with the last of them.
func (e *sharedExec) awaitEnd(ctx context.Context, timeout time.Duration) bool {
	if busy := e.close(); busy {
		return true
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-e.ended:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}
