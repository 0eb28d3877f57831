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

// isKit tells from its command line whether a process serves calls.
func isKit(command string) bool {
	words := strings.Fields(command)
	return len(words) > 1 && path.Base(words[0]) == path.Base(kitCommand[0]) && words[1] == kitCommand[1]
}

// joinsKit reports whether a call may share a process. Secrets are handed over in the environment of a process of the
// call's own, and what is no JSON object is for the skill to refuse.
func (s *Session) joinsKit(c lattice.Call) bool {
	if c.Skill == "agent.run" || !bytes.HasPrefix(c.Input, []byte("{")) || !json.Valid(c.Input) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && !s.alone[c.Sprite]
}

// kitFor is the sprite's kit, a new one where there is none that will do.
func (s *Session) kitFor(c lattice.Call) *kit {
	grace := max(kitGrace, disconnectGrace(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kits[c.Sprite]
	if k != nil && k.grace >= grace {
		k.mu.Lock()
		closed := k.closed
		k.mu.Unlock()
		if !closed {
			return k
		}
	}
	if k != nil {
		k.close()
	}
	ctx, cut := context.WithCancel(context.Background())
	k = &kit{
		s: s, sprite: c.Sprite, grace: grace, output: s.output(c.RunID), stderr: s.output(c.RunID), stdin: newFeed(), cut: cut, ended: make(chan struct{}),
		live: map[string]*turn{},
	}
	k.idle = time.AfterFunc(kitIdle, func() { k.close() })
	s.kits[c.Sprite] = k
	s.running.Go(func() {
		defer cut()
		k.run(ctx)
		s.dropKit(k)
	})
	return k
}

// dropKit forgets a kit that refuses new calls.
func (s *Session) dropKit(k *kit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kits[k.sprite] == k {
		delete(s.kits, k.sprite)
	}
}

// refuseKits remembers that a sprite's spritekit serves no sessions, until it is equipped anew.
func (s *Session) refuseKits(sprite string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone[sprite] = true
}

// retireKit ends a kit: first its calls end, then the process. It kills a process that does not end.
func (s *Session) retireKit(ctx context.Context, k *kit) {
	s.dropKit(k)
	if !k.awaitEnd(ctx, s.grace) {
		k.killProcess(lattice.Call{Sprite: k.sprite})
	}
}

// Rest ends what serves calls in a sprite. Nothing is lost by it but the next call's advantage: call it when a run comes
// to rest, so that nothing of it runs in the sprite.
func (s *Session) Rest(ctx context.Context, sprite string) {
	s.mu.Lock()
	k := s.kits[sprite]
	s.mu.Unlock()
	if k != nil {
		s.retireKit(ctx, k)
	}
}

// Close ends everything that serves calls and waits for that. No call may be made any more.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	var all []*kit
	for _, k := range s.kits {
		all = append(all, k)
	}
	s.mu.Unlock()
	for _, k := range all {
		s.retireKit(context.Background(), k)
	}
	s.running.Wait()
}
