package fleet

import (
	"time"
)

// command is a process that a request has started in a sprite: see package execs.
type command interface {
	// Ended reports whether its process has.
	Ended() bool
	// LastUse returns when the command last wrote something, and until when it may run without a client.
	LastUse() (last, until time.Time)
	// Abandon ends a command whose sandbox is gone, and waits for its goroutines.
	Abandon()
}

// Adopt counts a command that has started among those of the sprite, runs run, and forgets the command when run returns. The
// sprite stays awake until release.
func (s *Sprite) Adopt(id string, c command, run func(), finished chan struct{}) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release = s.keep()
	s.commands[id] = c
	s.fleet.Chores.Go(func() {
		run()
		s.mu.Lock()
		delete(s.commands, id)
		s.rest()
		s.mu.Unlock()
		close(finished)
	})
	return release
}

// Running returns the commands that have not ended.
func (s *Sprite) Running() []command {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []command
	for _, c := range s.commands {
		if !c.Ended() {
			all = append(all, c)
		}
	}
	return all
}

// Command returns a command that has not ended, by its id.
func (s *Sprite) Command(id string) (command, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.commands[id]
	return c, ok && !c.Ended()
}
