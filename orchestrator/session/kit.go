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

// kit is one "spritekit session" in a sprite: many calls over one exec (DESIGN 17). Its goroutine, run, ends with the
// process; the Session owns it and waits for it.
type kit struct {
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
	live   map[string]*turn
	crowd  bool // more than one call was under way when it ended
	idle   *time.Timer
}

var (
	// errNotBegun says that the process never took the call: it may be made elsewhere, whatever its class.
	errNotBegun = errors.New("the session did not take the call")
	// kitCommand serves calls side by side as they come; how many there are is the engine's to say.
	kitCommand = [...]string{"/skills/spritekit", "session", "--parallel", "64"}
)

const (
	// kitIdle is when a kit without calls is closed; a run that goes on opens another.
	kitIdle = 30 * time.Second
	// kitGrace is the least that the host lets a kit run after a cut. It ends by itself before, when it has no calls.
	kitGrace = time.Hour
)

// run runs the kit's process and reads its stdout until it ends.
func (k *kit) run(ctx context.Context) {
	defer close(k.ended)
	defer flushOutput(k.output, k.stderr)
	defer k.stdin.end() // it has no reader any more
	named, ended, err := k.s.roster.begin(ctx, k.sprite, "session "+rand.Text())
	if err != nil {
		k.err = err
		return
	}
	defer ended()
	stdout, feed := io.Pipe()
	var exec sync.WaitGroup
	exec.Go(func() {
		k.exit, k.err = k.s.host.Exec(ctx, k.sprite, sprites.Exec{
			Cmd:   kitCommand[:],
			Env:   []string{"LATTICE_SPRITE_ID=" + k.sprite, "LATTICE_PERMISSIONS="}, // the rest is each call's
			Dir:   workspace,
			Stdin: k.stdin, Stdout: feed, Stderr: k.stderr,
			MaxRunAfterDisconnect: k.grace,
			OnSession: func(id string) {
				k.mu.Lock()
				k.id = id
				k.mu.Unlock()
				named(id)
			},
		})
		feed.CloseWithError(io.EOF)
	})
	k.readStdout(stdout)
	exec.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.crowd = true, len(k.live) > 1
	k.idle.Stop()
}

// readStdout passes the records of the process to their calls.
func (k *kit) readStdout(stdout *io.PipeReader) {
	scanner := protocol.NewScanner(stdout)
	var rec protocol.Record
	for {
		if err := scanner.Read(&rec); err != nil {
			stdout.CloseWithError(err) // unblocks the writer
			return
		}
		k.mu.Lock()
		k.handleRecord(&rec)
		k.mu.Unlock()
	}
}

// handleRecord handles one line. It requires mu.
func (k *kit) handleRecord(rec *protocol.Record) {
	switch rec.Kind {
	case protocol.KindEvent:
		if t := k.findTurn(rec.Event.CallID); t != nil {
			t.seen.outbox = rec.Event.CallID == "" && len(k.live) > 1 // it may be another's
			t.takeRecord(rec)
			t.seen.outbox = false
			return
		}
		fmt.Fprintf(k.output, "sprite %s: an event came when no call was under way\n", k.sprite)
	case protocol.KindWarning:
		fmt.Fprintf(k.output, "sprite %s: line %d: %s: %s\n", k.sprite, rec.Line, rec.Code, rec.Detail)
	case protocol.KindOutput:
		line, ok := protocol.DecodeSessionLine(rec.Bytes)
		switch {
		case !ok:
			fmt.Fprintf(k.output, "%s\n", rec.Bytes)
		case line.Note != nil:
			k.handleNote(*line.Note)
		case line.Output != nil:
			if t := k.live[line.Output.CallID]; t != nil {
				t.takeOutput(*line.Output)
			}
		default:
			k.handleResult(line.Result)
		}
	}
}

// findTurn returns the call of an event: the one that it names, else one of those in progress, which flags the event.
func (k *kit) findTurn(id string) *turn {
	if t := k.live[id]; t != nil {
		return t
	}
	for _, t := range k.live {
		return t
	}
	return nil
}

func (k *kit) handleNote(n protocol.SessionNote) {
	switch n.Session {
	case protocol.SessionReady:
		k.ready = true
	case protocol.SessionRefused:
		if t := k.live[n.CallID]; t != nil { // another version: it does not understand what we ask
			t.exit = refused
			k.finishTurn(t)
		}
	}
}

// handleResult ends a call. Only the kit's own process knows the token that the call was sent with: what else in the sprite
// writes to its stdout cannot end a call.
func (k *kit) handleResult(r *protocol.SessionResult) {
	t := k.live[r.CallID]
	if t == nil || t.token != r.Token {
		fmt.Fprintf(k.output, "sprite %s: a result came that no call waits for\n", k.sprite)
		return
	}
	t.settleResult(r)
	k.finishTurn(t)
}

// finishTurn ends a turn. It requires mu.
func (k *kit) finishTurn(t *turn) {
	k.forgetTurn(t)
	close(t.done)
}

func (k *kit) forgetTurn(t *turn) {
	delete(k.live, t.call.ID)
	if t.limit != nil {
		t.limit.Stop()
	}
	if len(k.live) == 0 && !k.closed {
		k.idle.Reset(kitIdle)
	}
}

// killProcess kills a kit that does not end by itself, with its calls.
func (k *kit) killProcess(c lattice.Call) {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.s.dropKit(k)
	k.cut()
	<-k.ended
	k.s.stopProcess(context.Background(), c, process{kit: true})
}

// close makes the kit refuse new calls and end after those in progress. It reports whether there are any.
func (k *kit) close() (busy bool) {
	k.mu.Lock()
	k.closed = true
	k.idle.Stop()
	busy = len(k.live) > 0
	k.mu.Unlock()
	k.stdin.end()
	return busy
}

// awaitEnd waits for the end of the kit, which calls in progress delay, and reports whether it has ended.
func (k *kit) awaitEnd(ctx context.Context, patience time.Duration) bool {
	if busy := k.close(); busy {
		return true // the last call's end is its end
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-k.ended:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}
