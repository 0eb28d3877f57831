package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/services"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"golang.org/x/sync/semaphore"
)

// Alone is the weight of a call that passes a sprite's gate alone; all others weigh 1.
const Alone = 1 << 30

// Sprite is the running state of one sprite. It exists from the first call that needs it until deletion.
type Sprite struct {
	fleet *Fleet
	ID    string
	Name  string
	gate  *semaphore.Weighted // passed by calls that use the tree; alone by those that replace it

	wanted bell // rings while somebody waits to pass the gate alone

	exists context.Context // ends when it is deleted, or with the host
	vanish func()          // ends it

	services  *services.Set // starts and ends with the box
	listening PortWatch
	proxies   atomic.Int32

	mu       boltfile.Lock // guards the fields below
	box      *sandbox.Box
	pinned   []string // layers that the box has mounted
	shown    []string // checkpoints that it shows
	socket   *Inside
	commands map[string]command
	tasks    map[string]Task // reasons to stay awake that the sprite gave itself
	life     lifecycle
	world    *network.Connection // the network of the box; nil without a box or a policy
	denied   *egress.Denials     // see denialList
}

// startBox returns the running box, starting one if there is none. The caller holds mu and is inside the gate.
func (s *Sprite) startBox(rec records.Sprite) (*sandbox.Box, error) {
	fl := s.fleet
	if fl.Context.Err() != nil {
		return nil, wire.ErrClosing
	}
	if why := fl.layers.WhyDegraded(rec.Tree); why != "" {
		return nil, wire.Degraded(why)
	}
	if s.box != nil {
		if !hasEnded(s.box) {
			return s.box, nil
		}
		fl.Config.Log.Warn().Str("sprite", rec.Name).Msg("sandbox ended by itself, starting another")
		if err := s.endBox(); err != nil {
			return nil, fmt.Errorf("clear away the ended sandbox: %w", err)
		}
	}
	if err := fl.confiner.RequireIsolation(rec.Name, rec.MinIsolation); err != nil {
		return nil, err
	}
	if err := fl.Furnish(s.ID); err != nil {
		return nil, err
	}
	if s.socket == nil {
		socket, err := fl.listenInside(s.ID, rec.Name)
		if err != nil {
			return nil, fmt.Errorf("open the sprite's own socket: %w", err)
		}
		s.socket = socket
	}
	cfg, chain, err := fl.BoxConfig(rec)
	if err != nil {
		return nil, err
	}
	if err := s.enterState(Running); err != nil {
		return nil, err
	}
	s.pinned = fl.layers.Pin(chain)
	box, err := fl.StartSandbox(cfg)
	if err != nil {
		fl.noteShortage(err)
		fl.confiner.ForgetProbe() // its result may not hold any more
		s.letGo()
		return nil, errors.Join(fmt.Errorf("start sandbox: %w", err), s.enterState(Cold))
	}
	if err := s.connectNetwork(box); err != nil {
		defer s.letGo()
		return nil, errors.Join(fmt.Errorf("connect the sandbox to the network: %w", err), box.Stop(), s.enterState(Cold))
	}
	s.box, s.shown = box, nil
	for _, p := range cfg.Points {
		s.shown = append(s.shown, p.ID)
	}
	if err := s.services.Up(box, fl.serviceEnv(rec, box)); err != nil {
		fl.Config.Log.Error().Err(err).Str("sprite", rec.Name).Msg("start the sprite's services") // commands run without them
	}
	fl.Chores.Go(s.recordAwake)
	return box, nil
}

// endBox ends the box, if there is one. mu is held.
func (s *Sprite) endBox() error {
	if s.box == nil {
		return nil
	}
	err := errors.Join(s.unfreezeBox(), s.box.Stop()) // frozen processes cannot end on every system
	s.letGo()
	s.disconnectNetwork()
	clear(s.tasks)
	return errors.Join(err, s.enterState(Cold))
}

// Stop ends the box and all sessions and waits for them. Nothing is started until it returns, because the caller is alone
// or the host is closed.
func (s *Sprite) Stop() error {
	s.mu.Lock()
	err := s.unfreezeBox() // services are told to end, and must be able to hear it
	s.mu.Unlock()
	s.services.Quit()
	s.mu.Lock()
	err = errors.Join(err, s.endBox())
	if s.life.timer != nil {
		s.life.timer.Stop()
	}
	commands := slices.Collect(maps.Values(s.commands))
	s.mu.Unlock() // adopt takes it when a command has ended
	for _, c := range commands {
		c.Abandon()
	}
	s.services.Wait()
	return err
}

// letGo forgets the box that has ended, or did not start. The caller holds mu.
func (s *Sprite) letGo() {
	s.box = nil
	s.fleet.layers.Unpin(s.pinned)
	s.pinned = nil
}

// Present is the box, nil when there is none or it has ended.
func (s *Sprite) Present() *sandbox.Box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil || hasEnded(s.box) {
		return nil
	}
	return s.box
}

// Quiet reports whether no process runs in the sprite, so that its box can be stopped without anybody noticing. The caller
// is alone.
func (s *Sprite) Quiet() bool {
	box := s.Present()
	return box == nil || box.Processes().Idle()
}

// Pause is stop for a sprite in which nothing runs, and whose tasks must survive.
func (s *Sprite) Pause() error {
	s.mu.Lock()
	tasks := maps.Clone(s.tasks)
	s.mu.Unlock()
	err := s.Stop()
	s.mu.Lock()
	maps.Copy(s.tasks, tasks)
	s.mu.Unlock()
	return err
}

// CloseSocket ends the sprite's own socket.
func (s *Sprite) CloseSocket() error {
	s.mu.Lock()
	socket := s.socket
	s.socket = nil
	s.mu.Unlock()
	if socket == nil {
		return nil
	}
	return socket.close()
}

// Resume starts the sprite's sandbox if it has services to run, which then start with it. The caller is alone in the gate.
func (s *Sprite) Resume(name string) {
	all, err := s.fleet.Store.Services(s.ID)
	wanted := false
	for _, spec := range all {
		wanted = wanted || !spec.Stopped
	}
	if err == nil && !wanted {
		return
	}
	var rec records.Sprite
	if err == nil {
		rec, err = s.fleet.Store.Sprite(name)
	}
	if err == nil {
		_, err = s.StartBox(rec)
	}
	if err != nil { // they start with the next call that needs the sandbox
		s.fleet.Config.Log.Warn().Err(err).Str("sprite", name).Msg("bring the sprite's services back")
	}
}

func hasEnded(box *sandbox.Box) bool {
	select {
	case <-box.Done():
		return true
	default:
		return false
	}
}

// StartBox returns the running box of a sprite, and starts one if there is none. The caller is inside the gate.
func (s *Sprite) StartBox(rec records.Sprite) (*sandbox.Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startBox(rec)
}

// EndBox ends the sandbox that a sprite has, if any, without waiting for calls under way.
func (s *Sprite) EndBox() error {
	s.mu.Lock()
	box := s.box
	err := s.unfreezeBox()
	s.mu.Unlock()
	if box == nil {
		return err
	}
	return errors.Join(err, box.Stop())
}

// Gone is closed when the sprite is deleted or its host ends.
func (s *Sprite) Gone() <-chan struct{} { return s.exists.Done() }

// WantedAlone is closed when a call waits to pass the gate alone, now or later.
func (s *Sprite) WantedAlone() <-chan struct{} { return s.wanted.rung() }

// OpenProxy counts a connection through the proxy until done is called; ok is false when there are most already.
func (s *Sprite) OpenProxy(most int32) (done func(), ok bool) {
	if s.proxies.Add(1) > most {
		s.proxies.Add(-1)
		return nil, false
	}
	return func() { s.proxies.Add(-1) }, true
}

// ChangeTasks calls fn with the tasks of the sprite that have not ended, which fn may change. The sprite is awake until it returns.
// fn is called with the lock of the sprite, so that it must not wait for anything, a client least of all.
func (s *Sprite) ChangeTasks(fn func(tasks map[string]Task, now time.Time) error) error {
	release, err := s.Hold()
	if err != nil {
		return err
	}
	defer release()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.fleet.Clock()
	maps.DeleteFunc(s.tasks, func(_ string, t Task) bool { return !t.Until.After(now) })
	return fn(s.tasks, now)
}

// PortWatch watches the ports that the sprite listens on.
func (s *Sprite) PortWatch() *PortWatch { return &s.listening }

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
	release = s.keepAwake()
	s.commands[id] = c
	s.fleet.Chores.Go(func() {
		run()
		s.mu.Lock()
		delete(s.commands, id)
		s.startIdleTimer()
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
