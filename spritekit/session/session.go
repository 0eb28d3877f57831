// Package session serves many calls over one exec (DESIGN 17): it reads calls as lines of JSON from stdin, and writes events
// and results as lines that name their call. protocol.SessionCall describes the lines and the conversation. Begin with Serve.
//
//	stdin ─► reader ─► Serve: a queue, at most Parallel calls at once ─► call ─► skill.Desk, or a program ─► lines ─► stdout
//
// A call in a session behaves like a call in a process of its own: it has the same input, permissions, journal, events and
// exit code. Its context comes from the line and never from the environment of the process. Built-in skills run in this
// process, which opens the workspace and the outbox once; each call of a third-party skill runs in a new process. If a skill
// panics, only its call fails. If the whole process ends (out of memory, a kill), lines that were not written are lost; the
// reader handles that like any lost stream, because the journal and the outbox have the state of each call.
//
// The order within a call is: outbox, stdout, result. Lines are written whole, and are buffered for a moment at most. A line
// that is not a call is refused; the session continues. Memory is bounded by the running calls and by maxQueued bytes of
// queued calls; while the queue is full no input is read.
//
// A session ends when its input ends, after the idle timeout, after a call that waits (a boundary follows, at which no call
// may run), when its stdout is closed, or when its context ends. Calls that have started always run to their end, and every
// accepted call is answered. A call that is cancelled before it starts is never run; the end of stdout or of the context
// cancels all queued calls.
package session

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Options of Serve.
type Options struct {
	Skills   []skill.Skill
	Self     string   // path of spritekit; third-party skills are in its folder
	Environ  []string // of the process; variables of a single call are ignored
	Parallel int      // concurrency limit; 0 = 1, in the order of arrival
	// Keepalive is the time without output after which a keepalive line is written; 0 = 15 s.
	Keepalive time.Duration
	// Idle ends a session without calls; 0 = 2 min. The reader may have gone without notice.
	Idle time.Duration
	// Hurry is called with true when a call has run for longer than a moment, and with false when none does any more: short
	// calls are fastest in a process that uses one processor. It may be nil.
	Hurry func(bool)
	// Run runs a third-party program to its end and returns its exit code as a shell does.
	Run func(ctx context.Context, p Program) (exit int, err error)
}

// Program is one process of a call.
type Program struct {
	Argv           []string
	Dir            string
	Env            []string
	Stdin          []byte
	Stdout, Stderr io.Writer
}

const (
	defaultKeepalive = 15 * time.Second
	defaultIdle      = 2 * time.Minute
	// MaxParallel bounds Options.Parallel.
	MaxParallel = 64
	maxQueued   = 32 << 20 // bytes of lines that wait for their turn
	maxWaiting  = 1024     // and their number
)

// Serve serves calls until the session ends, and returns its exit code: 0, 75 after a call that waits, 130 when ctx
// ended. It may leave one Read of stdin behind, which cannot be interrupted.
func Serve(ctx context.Context, o Options, stdin io.Reader, stdout io.Writer) (exit int, err error) {
	o.Parallel = min(max(o.Parallel, 1), MaxParallel)
	if o.Keepalive <= 0 {
		o.Keepalive = defaultKeepalive
	}
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	if o.Hurry == nil {
		o.Hurry = func(bool) {}
	}
	s := &server{
		o: o, out: newLines(stdout), base: baseEnv(o.Environ), live: map[string]*call{}, ended: make(chan *call),
		work: make(chan *call, o.Parallel),
	}
	env := skill.ParseEnv(s.base)
	s.desk = skill.NewDesk(env.Workspace, env.State)
	defer s.desk.Close() // everything that matters was synced
	requests, gone := make(chan request), make(chan struct{})
	defer close(gone)
	go readRequests(stdin, requests, gone)
	s.out.writeNote(protocol.SessionNote{Session: protocol.SessionReady, ProtocolVersion: protocol.Version, Parallel: o.Parallel})
	exit = s.serveRequests(ctx, requests)
	close(s.work)
	s.workers.Wait()
	if err := s.out.closeLines(); err != nil {
		return protocol.ExitInternal, fmt.Errorf("write stdout: %w", err)
	}
	return exit, nil
}

// server is one session. Serve's goroutine owns its fields; calls at work read o, base, desk and out.
type server struct {
	o    Options
	out  *lines
	desk *skill.Desk
	base []string // environment without the variables of a single call

	live    map[string]*call // at work or waiting for their turn, by id
	queue   []*call
	queued  int // bytes
	running int
	ended   chan *call
	pace    pace

	// Workers take calls one after the other, so that the stack of a goroutine grows once, not for each call.
	workers sync.WaitGroup
	made    int // workers, as many as calls were ever at work at once
	work    chan *call
}

func (s *server) serveRequests(ctx context.Context, requests <-chan request) (exit int) {
	silence, idle := time.NewTicker(s.o.Keepalive), time.NewTimer(s.o.Idle)
	s.pace = newPace(s.o.Hurry)
	defer silence.Stop()
	defer idle.Stop()
	defer s.pace.stopTimer()
	stop, leaving := ctx.Done(), false
	for {
		if !leaving && s.out.isBroken() { // results can no longer be read
			leaving = true
			s.refuseCalls()
		}
		if stop != nil && ctx.Err() != nil { // which ended the calls' contexts, too; none may begin any more
			stop, leaving, exit = nil, true, protocol.ExitCancelled
			s.refuseCalls()
		}
		for len(s.queue) > 0 && s.running < s.o.Parallel {
			s.startQueued()
		}
		busy := s.running > 0
		if leaving && !busy {
			return exit
		}
		from := requests
		if leaving || s.queued > maxQueued || len(s.queue) >= maxWaiting {
			from = nil
		}
		select {
		case r, more := <-from:
			if !more {
				leaving = true
				break
			}
			s.acceptRequest(ctx, r)
		case c := <-s.ended:
			s.running--
			s.pace.removeCall(s.running)
			if s.live[c.CallID] == c { // else it was made again
				delete(s.live, c.CallID)
			}
			if c.exit == protocol.ExitWaiting && !leaving {
				leaving, exit = true, protocol.ExitWaiting
			}
			idle.Reset(s.o.Idle)
		case <-s.pace.timer.C:
			s.pace.checkCalls(s.running)
		case <-silence.C:
			s.out.writeKeepalive(s.o.Keepalive)
		case <-idle.C:
			leaving = leaving || !busy
		case <-stop: // seen to above, before anything else begins
		}
	}
}

// acceptRequest queues a call, ends one, or refuses the line.
func (s *server) acceptRequest(ctx context.Context, r request) {
	refuse := func(problems ...protocol.Problem) {
		s.out.writeNote(protocol.SessionNote{Session: protocol.SessionRefused, Line: r.line, CallID: r.call.CallID, Problems: problems})
	}
	switch {
	case len(r.problems) > 0:
		refuse(r.problems...)
	case r.cancel != "":
		if c := s.live[r.cancel]; c != nil {
			c.cancel()
			s.unqueueCall(c)
		}
	case s.live[r.call.CallID] != nil && !s.live[r.call.CallID].over.Load():
		refuse(protocol.Problem{Pointer: "/call_id", Message: "is that of a call that is under way"})
	default:
		c := &call{SessionCall: r.call, server: s, size: r.size}
		c.ctx, c.cancel = context.WithCancel(ctx)
		s.live[c.CallID] = c
		s.queue = append(s.queue, c)
		s.queued += c.size
	}
}

// startQueued lets the first call of the queue run.
func (s *server) startQueued() {
	c := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.queued -= c.size
	s.pace.addCall(s.running)
	if s.running++; s.running > s.made {
		s.made++
		s.workers.Go(func() {
			for c := range s.work {
				c.runCall()
				c.cancel()
				s.ended <- c
			}
		})
	}
	s.work <- c // there is room for all that may run
}

// unqueueCall answers a cancelled call that waits for its turn: it is never begun.
func (s *server) unqueueCall(c *call) {
	at := slices.Index(s.queue, c)
	if at < 0 {
		return
	}
	s.queue = slices.Delete(s.queue, at, at+1)
	s.queued -= c.size
	delete(s.live, c.CallID)
	c.declineCall()
}

// refuseCalls answers all calls that wait for their turn: none of them is begun.
func (s *server) refuseCalls() {
	for len(s.queue) > 0 {
		c := s.queue[0]
		c.cancel()
		s.unqueueCall(c)
	}
}

// builtIn finds a skill of ours.
func (s *server) builtIn(name string) (skill.Skill, manifests.Skill, bool) {
	for _, one := range s.o.Skills {
		if one.Name == name {
			m, ok := manifests.Lookup(name)
			return one, m, ok
		}
	}
	return skill.Skill{}, manifests.Skill{}, false
}
