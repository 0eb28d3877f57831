package drive

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Succession ends the leadership of this process: after a time without activity, or for another process that leads next.
type Succession struct {
	Drives   *Drives
	Activity *Activity
	Client   *sprites.Client
	Embedded bool // the sprites are those of the embedded host
	Logger   zerolog.Logger
	Handed   chan struct{} // closed when another process leads next
	Ending   chan struct{} // closed when the process ends
}

// Retire refuses new work after a period of idle in which no run was driven, no timer was set and no request was served. It
// returns ctx's error if ctx ends first, and nil if the leadership ended otherwise. Close must follow.
func (s *Succession) Retire(ctx context.Context, idle time.Duration) error {
	for {
		if s.Drives.IsClosing() {
			return nil
		}
		quiet, changed := s.Activity.isIdle()
		// The timer does not count sleep of the machine, so that a laptop does not wake to a leader that retires at once.
		t := time.NewTimer(idle)
		if !quiet {
			t.Stop()
		}
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-s.Handed:
		case <-t.C:
			if !s.hasRunningSprite(ctx) && s.Drives.closeIf(func() bool { idle, _ := s.Activity.isIdle(); return idle }) {
				return nil
			}
		case <-changed[0]:
		case <-changed[1]:
		case <-changed[2]:
		}
		t.Stop()
	}
}

// hasRunningSprite reports whether a command runs in a sprite of the embedded host, attached or not.
func (s *Succession) hasRunningSprite(ctx context.Context) bool {
	if !s.Embedded {
		return false
	}
	all, err := s.Client.List(ctx, "")
	return err == nil && slices.ContainsFunc(all, func(s sprites.Sprite) bool { return s.Status == "running" })
}

// HandOver stops every run after its current command, and ends the leadership. If ctx ends before, every run continues and
// nothing has changed.
func (s *Succession) HandOver(ctx context.Context, to api.HandoverRequest) (api.Handover, error) {
	if to.WaitS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(to.WaitS*float64(time.Second)))
		defer cancel()
	}
	left, err := s.pauseAll(ctx)
	if err != nil {
		return api.Handover{}, err
	}
	s.Logger.Info().Str("to", to.Version).Int("pid", to.PID).Int("runs", len(left)).Msg("handed over")
	close(s.Handed)
	return api.Handover{Runs: left}, nil
}

// HandedOver returns a channel that is closed when another process leads next. The leader must then be closed and its lock
// released.
func (s *Succession) HandedOver() <-chan struct{} { return s.Handed }

// Leave is HandOver for a process whose own work is done: it returns the runs that another process has to drive. Runs that do
// not come to rest before ctx ends are cut off.
func (s *Succession) Leave(ctx context.Context) []api.HandedRun {
	select {
	case <-s.Handed: // with all that it drove
		return nil
	default:
	}
	left := s.Drives.listUnfollowed()
	if len(left) == 0 {
		return nil
	}
	if rested, err := s.pauseAll(ctx); err == nil {
		return rested
	}
	return left
}

// pauseAll brings every drive to rest and closes the leader to new work, or changes nothing.
func (s *Succession) pauseAll(ctx context.Context) ([]api.HandedRun, error) {
	left, err := s.Drives.yieldRuns()
	if err != nil {
		return nil, err
	}
	if err := s.awaitRest(ctx); err != nil {
		s.Drives.resume(false)
		return nil, err
	}
	s.Drives.resume(true)
	return left, nil
}

// awaitRest waits until no run is driven and no request uses a sprite.
func (s *Succession) awaitRest(ctx context.Context) error {
	for {
		rest, changed := s.Activity.isAtRest()
		if rest {
			return nil
		}
		work := s.Drives.describeWork()
		select {
		case <-changed:
		case <-s.Ending:
			return errClosing
		case <-ctx.Done():
			return fault.Busy("leader_busy", "the leading lattice did not come to rest: %s", work).WithHint("try again when that is done")
		}
	}
}
