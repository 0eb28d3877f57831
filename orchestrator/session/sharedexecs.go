package session

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// isShared reports whether a command line is that of a process that serves calls.
func isShared(command string) bool {
	words := strings.Fields(command)
	return len(words) > 1 && path.Base(words[0]) == path.Base(sharedCommand[0]) && words[1] == sharedCommand[1]
}

// canShare reports whether a call may share a process with others. agent.run cannot, because it gets secrets in its
// environment. An input that is not a JSON object is for the skill to refuse.
func (s *Session) canShare(c lattice.Call) bool {
	if c.Skill == "agent.run" || !bytes.HasPrefix(c.Input, []byte("{")) || !json.Valid(c.Input) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && !s.alone[c.Sprite]
}

// openShared returns the shared exec of the sprite. It starts a new one if there is none, or if the present one is closed or
// would end too early after a lost connection.
func (s *Session) openShared(c lattice.Call) *sharedExec {
	grace := max(minGrace, disconnectGrace(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.shared[c.Sprite]
	if e != nil && e.grace >= grace {
		e.mu.Lock()
		closed := e.closed
		e.mu.Unlock()
		if !closed {
			return e
		}
	}
	if e != nil {
		e.close()
	}
	ctx, cut := context.WithCancel(context.Background())
	e = &sharedExec{
		s: s, sprite: c.Sprite, grace: grace, output: s.output(c.RunID, ""), stderr: s.output(c.RunID, ""), stdin: newFeed(), cut: cut, ended: make(chan struct{}),
		live: map[string]*pendingCall{},
	}
	e.idle = time.AfterFunc(idleTimeout, func() { e.close() })
	s.shared[c.Sprite] = e
	s.running.Go(func() {
		defer cut()
		e.run(ctx)
		s.dropShared(e)
	})
	return e
}

// dropShared removes a shared exec that refuses new calls.
func (s *Session) dropShared(e *sharedExec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared[e.sprite] == e {
		delete(s.shared, e.sprite)
	}
}

// refuseShared records that the spritekit of a sprite serves no sessions. Installing skills clears the record.
func (s *Session) refuseShared(sprite string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone[sprite] = true
}

// retireShared ends a shared exec: first its calls end, then the process. It kills a process that does not end.
func (s *Session) retireShared(ctx context.Context, e *sharedExec) {
	s.dropShared(e)
	if !e.awaitEnd(ctx, s.grace) {
		e.killProcess(lattice.Call{Sprite: e.sprite})
	}
}

// Rest ends the shared exec of a sprite, so that no process of the run remains there. It only costs time: the next call
// starts another.
func (s *Session) Rest(ctx context.Context, sprite string) {
	s.mu.Lock()
	e := s.shared[sprite]
	s.mu.Unlock()
	if e != nil {
		s.retireShared(ctx, e)
	}
}

// Close ends all shared execs and waits for them. It must not be followed by a call.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	var all []*sharedExec
	for _, e := range s.shared {
		all = append(all, e)
	}
	s.mu.Unlock()
	for _, e := range all {
		s.retireShared(context.Background(), e)
	}
	s.running.Wait()
}
