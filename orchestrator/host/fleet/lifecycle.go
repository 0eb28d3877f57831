package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A sprite is cold without a sandbox, running while it is used, and warm when it is not used for a while: its processes
// are then frozen where the system can do that, and otherwise only called warm. Later its sandbox is stopped, and it is
// cold. The next use wakes it.
//
// These count as use: calls that run something or touch files, clients that are attached to a session, connections, and tasks.
// Output of a session without clients counts when it comes. Reading the list or a sprite's object does not: looking at
// a sprite must not keep it awake.
//
// A session without a client that was given a time to run on (max_run_after_disconnect) keeps its sprite running for so
// long: the time was given for that. One that may stay for ever is frozen with its sprite when it is silent, as
// the API has it, and goes on where it was when somebody comes back; but as long as it lives the sandbox is not stopped,
// because nothing would be left to come back to. The same holds for services that run: they are frozen, but not ended.

// status is the state of a sprite as the API names it.
type status string

const (
	Cold    status = "cold"
	Warm    status = "warm"
	Running status = "running"
)

// Times after which a sprite that is not used becomes warm and then cold, unless Config says otherwise.
const (
	warmAfter = 30 * time.Second
	coldAfter = 10 * time.Minute
)

// freezeTimeout bounds how long the processes of a sprite may take to stand still.
const freezeTimeout = 2 * time.Second

// lifecycle is the part of a sprite that says how awake it is. It is guarded by sprite.mu.
type lifecycle struct {
	status  status
	holds   int          // uses under way
	thaw    func() error // not nil while the processes are frozen
	timer   *time.Timer  // fires when the sprite may have been idle for long enough; made with the first use
	running *time.Time   // when it last became running, if it did under this host
	warmed  *time.Time   // when it last became warm
}

// state is the part of a sprite's object that says how awake it is.
type state struct {
	Status          status
	Running, Warmed *time.Time
}

func (fl *Fleet) State(rec records.Sprite) state {
	fl.mu.Lock()
	s := fl.sprites[rec.ID]
	fl.mu.Unlock()
	at := state{Cold, rec.LastStarted, rec.LastWarmed}
	if s == nil {
		return at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil && !hasEnded(s.box) {
		at.Status = s.life.status
	}
	if s.life.running != nil {
		at.Running = s.life.running
	}
	if s.life.warmed != nil {
		at.Warmed = s.life.warmed
	}
	return at
}

// Hold wakes the sprite and keeps it awake until release, which may be called again.
func (s *Sprite) Hold() (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wakeProcesses(); err != nil {
		return nil, err
	}
	return s.keepAwake(), nil
}

// keepAwake does as Hold for a sprite that is awake; mu is held.
func (s *Sprite) keepAwake() (release func()) {
	s.life.holds++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.life.holds--
		s.startIdleTimer()
	})
}

// wakeProcesses lets frozen processes go on. mu is held.
func (s *Sprite) wakeProcesses() error {
	if s.life.timer != nil {
		s.life.timer.Stop()
	}
	if s.life.status != Warm {
		return nil
	}
	if err := s.enterState(Running); err != nil {
		return err
	}
	if err := s.unfreezeBox(); err != nil {
		// Processes that stand still for ever are of no use to anybody: the sandbox ends, and the next command starts
		// another one.
		s.fleet.Config.Log.Error().Err(err).Str("sprite", s.Name).Msg("thaw the sprite's processes; its sandbox is stopped")
		return s.box.Stop()
	}
	return nil
}

// unfreezeBox lets processes go on, if they are frozen. mu is held.
func (s *Sprite) unfreezeBox() error {
	thaw := s.life.thaw
	s.life.thaw = nil
	if thaw == nil {
		return nil
	}
	return thaw()
}

// enterState records a change of state, or refuses to run one sprite too many. mu is held.
func (s *Sprite) enterState(to status) error {
	fl, from := s.fleet, s.life.status
	if from == to {
		return nil
	}
	if to == Running {
		if err := fl.Limits.occupyPlace(); err != nil {
			return err
		}
	} else if from == Running {
		fl.Limits.vacatePlace()
	}
	now := fl.Now()
	switch s.life.status = to; to {
	case Running:
		s.life.running = &now
	case Warm:
		s.life.warmed = &now
	case Cold:
	}
	fl.Changes.Tell(s.Name)
	return nil
}

// startIdleTimer begins the wait for the sprite to have been idle for long enough, if it is idle. mu is held.
func (s *Sprite) startIdleTimer() {
	wait := s.fleet.idleTimes().warm
	if s.life.holds > 0 || wait <= 0 || s.box == nil {
		return
	}
	if s.life.timer == nil {
		s.life.timer = time.AfterFunc(wait, s.SleepIfIdle)
		return
	}
	s.life.timer.Reset(wait)
}

// idleTimes are after how long a sprite gets warm, and after how much longer cold; 0 = never.
type idleTimes struct{ warm, cold time.Duration }

func (fl *Fleet) idleTimes() idleTimes {
	t := idleTimes{fl.Config.WarmAfter, fl.Config.ColdAfter}
	t.warm = cmp.Or(t.warm, warmAfter)
	t.cold = cmp.Or(t.cold, coldAfter)
	return idleTimes{max(t.warm, 0), max(t.cold, 0)}
}

// SleepIfIdle looks whether the sprite has been idle for long enough, and takes it one step further if so. It is called by the
// timer; Close waits for it as for a call.
func (s *Sprite) SleepIfIdle() {
	done, ok := s.fleet.Admit()
	if !ok {
		return
	}
	defer done()
	if !s.gate.TryAcquire(Alone) {
		return // it is in use, and rests again when that ends
	}
	defer s.gate.Release(Alone)
	stop := s.stepToSleep(s.fleet.Clock())
	if stop {
		if err := s.Stop(); err != nil {
			s.fleet.Config.Log.Warn().Err(err).Str("sprite", s.Name).Msg("stop the sandbox of an idle sprite")
		}
	}
	s.recordAwake()
}

// stepToSleep takes one step towards sleep; stop says that the sandbox is to be stopped.
func (s *Sprite) stepToSleep(now time.Time) (stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := s.fleet.idleTimes()
	if s.life.holds > 0 || s.box == nil {
		return false
	}
	if hasEnded(s.box) {
		return true
	}
	commands := 0
	var awake time.Duration // how much longer at least
	for _, c := range s.commands {
		if c.Ended() {
			continue
		}
		commands++
		last, until := c.LastUse()
		awake = max(awake, last.Add(times.warm).Sub(now), until.Sub(now))
	}
	for _, t := range s.tasks {
		awake = max(awake, t.Until.Sub(now))
	}
	switch {
	case awake > 0:
		s.life.timer.Reset(awake)
		return false
	case s.life.status == Running:
		s.freezeProcesses()
		if err := s.enterState(Warm); err != nil {
			s.fleet.Config.Log.Warn().Err(err).Str("sprite", s.Name).Msg("let the sprite get warm")
		}
		if times.cold > 0 {
			s.life.timer.Reset(times.cold)
		}
		return false
	}
	return commands == 0 && !s.runsService()
}

// runsService reports whether one of the sprite's services runs.
func (s *Sprite) runsService() bool {
	return slices.ContainsFunc(s.services.List(), func(one sprites.Service) bool {
		return one.State.Status == "running" || one.State.Status == "starting"
	})
}

// freezeProcesses makes the processes stand still; mu is held.
func (s *Sprite) freezeProcesses() {
	ctx, cancel := context.WithTimeout(s.fleet.Context, freezeTimeout)
	defer cancel()
	thaw, err := s.box.Freeze(ctx)
	if err != nil {
		s.fleet.Config.Log.Debug().Err(err).Str("sprite", s.Name).Msg("an idle sprite is called warm although its processes could not be frozen")
		return
	}
	s.life.thaw = thaw
}

// recordAwake writes down when the sprite was awake. That is no reason for a call to fail or to wait.
func (s *Sprite) recordAwake() {
	s.mu.Lock()
	at := s.life
	s.mu.Unlock()
	_, err := s.fleet.Store.UpdateSprite(s.Name, func(r *records.Sprite) {
		if r.ID != s.ID {
			return // another sprite of that name
		}
		if at.running != nil {
			r.LastStarted = at.running
		}
		if at.warmed != nil {
			r.LastWarmed = at.warmed
		}
	})
	if err != nil {
		s.fleet.Config.Log.Warn().Err(err).Str("sprite", s.Name).Msg("record the sprite's life")
	}
}

// Use returns the sprite's running sandbox, started or woken as need be, and keeps the sprite awake and its files in
// place until done. For connections into a sprite: see also hold.
func (fl *Fleet) Use(ctx context.Context, name string) (s *Sprite, box *sandbox.Box, done func(), err error) {
	s, rec, leave, err := fl.Enter(ctx, name, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	box, err = s.StartBox(rec)
	if err != nil {
		leave()
		return nil, nil, nil, fmt.Errorf("start sprite %s: %w", name, err)
	}
	return s, box, leave, nil
}

// PresentBox returns the running sandbox of a sprite, nil if there is none.
func (fl *Fleet) PresentBox(id string) *sandbox.Box {
	fl.mu.Lock()
	s := fl.sprites[id]
	fl.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Present()
}

// LimitsInUse returns the limits of the running sandbox, which a policy may have changed since it started.
func (fl *Fleet) LimitsInUse(box *sandbox.Box, given spec.Limits) (spec.Limits, string) {
	if box == nil {
		return given, ""
	}
	asked := given.MemoryBytes
	if given.MemoryBytes = box.Limits().Memory(); asked > 0 && asked != given.MemoryBytes {
		return given, fmt.Sprintf("%d bytes from the sprite's next start on", asked)
	}
	return given, ""
}

// Uses returns how many uses keep the sprite awake.
func (s *Sprite) Uses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.holds
}
