package fleet

import (
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// limits counts sprites for [core.Limits].
type limits struct {
	of core.Limits

	mu      boltfile.Lock // guards the fields below
	made    []time.Time   // the last creations, oldest first; at most of.Creations
	running int
}

func newLimits(of core.Limits) *limits {
	if of.Window <= 0 {
		of.Window = time.Minute
	}
	return &limits{of: of}
}

// CountCreation counts a creation, or refuses it.
func (l *limits) CountCreation(now time.Time) error {
	if l.of.Creations <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.made) > 0 && now.Sub(l.made[0]) >= l.of.Window {
		l.made = l.made[1:]
	}
	if len(l.made) >= l.of.Creations {
		reset := l.made[0].Add(l.of.Window)
		return &wire.LimitError{
			Code:    "sprite_creation_rate_limited",
			Message: fmt.Sprintf("%d sprites were made within %s, which is the limit of this host; try again later", len(l.made), l.of.Window),
			Limit:   l.of.Creations, Count: len(l.made), Window: l.of.Window, Retry: reset.Sub(now), Reset: reset,
		}
	}
	l.made = append(l.made, now)
	return nil
}

// CheckRunning is the refusal to run another sprite, nil when there is room.
func (l *limits) CheckRunning() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkRoom()
}

func (l *limits) checkRoom() error {
	if l.of.Running <= 0 || l.running < l.of.Running {
		return nil
	}
	return &wire.LimitError{
		Code:    "concurrent_sprite_limit_exceeded",
		Message: fmt.Sprintf("%d sprites are running, which is the limit of this host; wait until one is idle, or remove one", l.running),
		Limit:   l.of.Running, Count: l.running,
	}
}

// occupyPlace counts a sprite that begins to run, or refuses it.
func (l *limits) occupyPlace() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkRoom(); err != nil {
		return err
	}
	l.running++
	return nil
}

// vacatePlace counts a sprite out that runs no more.
func (l *limits) vacatePlace() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}
