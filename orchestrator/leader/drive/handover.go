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

// Succession ends the leadership of this process: when it was idle for long enough, or when another process leads next.
type Succession struct {
	Drives   *Drives
	Activity *Activity
	Client   *sprites.Client
	Embedded bool // the sprites are those of the embedded host
	Logger   zerolog.Logger
	Handed   chan struct{} // closed when another process leads next
	Ending   chan struct{} // closed when the process ends
}

// Retire ends the leadership, as far as new work goes, when nothing was driven, timed or asked for during idle. It returns
// ctx's error when that ends first, and nil when somebody else ended the leadership. Close must follow.
func (s *Succession) Retire(ctx context.Context, idle time.Duration) error {
	for {
		if s.Drives.IsClosing() {
			return nil
		}
		quiet, changed := s.Activity.isIdle()
		// The timer counts the time that the machine was awake: a laptop does not wake up to a leader that has just gone.
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

// hasRunningSprite reports whether a command runs in a sprite of the embedded host, with or without anybody attached to it.
func (s *Succession) hasRunningSprite(ctx context.Context) bool {
	if !s.Embedded {
		return false
	}
	all, err := s.Client.List(ctx, "")
	return err == nil && slices.ContainsFunc(all, func(s sprites.Sprite) bool { return s.Status == "running" })
}

// HandOver puts down what is driven, each run when what it began has ended, and ends the leadership. When ctx ends
// before, everything goes on as if nobody had asked.
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

// HandedOver is closed when another process leads next. The leader must then be closed, and its lock given up.
func (s *Succession) HandedOver() <-chan struct{} { return s.Handed }

// Leave is HandOver for a process whose own work is done: it returns the runs that somebody has to go on with. What does
// not come to rest before ctx ends is cut off.
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
	left, err := s.Drives.yield()
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

// awaitRest waits until nothing is driven and no sprite is used.
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
