// Package fleet runs sprites: it starts their sandboxes, counts their uses, lets idle ones sleep, and ends them. Every call
// about a sprite that runs comes through [Fleet].
package fleet

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"golang.org/x/sync/semaphore"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/services"
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Fleet is the sprites that run: it starts and wakes them, counts the calls about them, and ends them with the host.
type Fleet struct {
	*core.Core
	confiner *confine.Confiner
	layers   *storage.Store
	network  *network.Policy
	skills   *share.Skills
	caches   *share.GoCaches

	// Inside returns the handler of the requests from inside a sprite.
	Inside func(s *Inside, id, name string) http.Handler

	Limits  *limits
	Changes changes // of sprites, for those who watch the list
	boxes   sandbox.Starter
	starved chan struct{} // a sandbox could not be started for want of something; see guardShares

	mu      boltfile.Lock // guards the fields below
	closed  bool
	calls   sync.WaitGroup     // requests being served; Add only under mu while not closed
	sprites map[string]*Sprite // by id; those that run
}

func New(c *core.Core, confiner *confine.Confiner, layers *storage.Store, network *network.Policy, skills *share.Skills, caches *share.GoCaches) *Fleet {
	return &Fleet{
		Core: c, confiner: confiner, layers: layers, network: network, skills: skills, caches: caches,
		Limits: newLimits(c.Config.Limits), starved: make(chan struct{}, 1), sprites: map[string]*Sprite{},
	}
}

// Enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others. The caller calls leave when it no
// longer uses the record's tree; until then the sprite stays awake.
func (fl *Fleet) Enter(ctx context.Context, name string, weight int64) (s *Sprite, rec records.Sprite, leave func(), err error) {
	first, err := fl.Store.Sprite(name)
	if err != nil {
		return nil, rec, nil, err
	}
	if s, err = fl.Runtime(first); err != nil {
		return nil, rec, nil, err
	}
	release, err := s.Hold()
	if err != nil {
		return nil, rec, nil, err
	}
	if weight == Alone {
		defer s.wanted.ring()()
	}
	if err := s.gate.Acquire(ctx, weight); err != nil {
		release()
		return nil, rec, nil, err
	}
	leave = sync.OnceFunc(func() {
		s.gate.Release(weight)
		release()
	})
	// During the wait it may have been deleted, recreated, or restored to another tree.
	rec, err = fl.Store.Sprite(name)
	if err == nil && rec.ID != first.ID {
		err = records.ErrNoSprite
	}
	if err != nil {
		leave()
		return nil, rec, nil, err
	}
	return s, rec, leave, nil
}

func (fl *Fleet) Runtime(rec records.Sprite) (*Sprite, error) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.closed {
		return nil, wire.ErrClosing
	}
	s := fl.sprites[rec.ID]
	if s == nil {
		s = &Sprite{
			fleet: fl, ID: rec.ID, Name: rec.Name, gate: semaphore.NewWeighted(Alone),
			commands: map[string]command{}, tasks: map[string]Task{}, life: lifecycle{status: Cold},
		}
		s.exists, s.vanish = context.WithCancel(fl.Context)
		s.services = services.NewSet(s.exists, fl.Core, rec.ID)
		s.listening.sprite = s
		fl.sprites[rec.ID] = s
	}
	return s, nil
}

func (fl *Fleet) Running() []*Sprite {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	all := make([]*Sprite, 0, len(fl.sprites))
	for _, s := range fl.sprites {
		all = append(all, s)
	}
	return all
}

// Forget removes a sprite that was deleted.
func (fl *Fleet) Forget(s *Sprite) {
	s.vanish()
	fl.mu.Lock()
	defer fl.mu.Unlock()
	delete(fl.sprites, s.ID)
}

// Admit counts a request in, so that Close waits until done is called; ok is false when the host is closed.
func (fl *Fleet) Admit() (done func(), ok bool) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.closed {
		return nil, false
	}
	fl.calls.Add(1)
	return fl.calls.Done, true
}

// Shut has admit and runtime refuse from now on. It returns false when they do already.
func (fl *Fleet) Shut() bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	was := fl.closed
	fl.closed = true
	return !was
}

// BoxConfig describes the box of a sprite, and names the layers that it mounts.
func (fl *Fleet) BoxConfig(rec records.Sprite) (spec.Config, []records.Layer, error) {
	root, chain, err := fl.layers.BoxRoot(rec.Tree)
	if err != nil {
		return spec.Config{}, nil, err
	}
	points, below, err := fl.layers.CheckpointMounts(rec.ID)
	if err != nil {
		return spec.Config{}, nil, err
	}
	cfg := spec.Config{
		Self: fl.Config.Self, Root: root, Level: fl.confiner.Confined().Level(), Skills: fl.skills.DirOf(rec), Tools: fl.confiner.Tools(rec), Run: fl.RunDir(rec.ID), Cache: fl.CacheDir(rec.ID), OwnIDs: fl.confiner.Confined().OwnIDs, SubIDs: fl.confiner.Confined().SubIDs,
		Shared: fl.caches.Share(rec), Network: fl.Config.Network.Preset != "" && fl.confiner.Confined().Netns, Limits: fl.confiner.BoxLimits(rec), Points: points,
	}
	why := fl.confiner.WhyNoRoot()
	cfg.AsRoot, cfg.NoRoot = why == "", cmp.Or(why, fl.confiner.WhyOneUser())
	return cfg, append(chain, below...), fl.layers.AddImage(rec, &cfg)
}

// serviceEnv is the environment of all services of a sprite, before their own.
func (fl *Fleet) serviceEnv(rec records.Sprite, box *sandbox.Box) []string {
	return program.MergeEnv(box.Config().BaseEnv(), fl.Config.Env, program.PlainEnv(box), program.EnvOf(rec.Environment))
}

// ServicesOf finds the services of a sprite without waking it.
func (fl *Fleet) ServicesOf(name string) (*services.Set, error) {
	rec, err := fl.Store.Sprite(name)
	if err != nil {
		return nil, err
	}
	s, err := fl.Runtime(rec)
	if err != nil {
		return nil, err
	}
	return s.services, s.services.Prepare()
}

// WakeServices is ServicesOf of a sprite whose sandbox is up until done is called.
func (fl *Fleet) WakeServices(ctx context.Context, name string) (v *services.Set, done func(), err error) {
	s, _, leave, err := fl.Use(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	release, err := s.Hold()
	leave() // a client that follows a service must not keep the sprite from being restored
	if err != nil {
		return nil, nil, err
	}
	return s.services, release, nil
}

// Close ends every sprite, and waits for the calls under way. No box starts after the context of the host has ended: starting
// looks at it under the lock that stop takes.
func (fl *Fleet) Close() error {
	var failed []error
	for _, s := range fl.Running() {
		failed = append(failed, s.Stop(), s.CloseSocket())
	}
	fl.boxes.Close()
	fl.calls.Wait()
	return errors.Join(failed...)
}

// StartSandbox starts a box. Most of the start of the next one is done ahead.
func (fl *Fleet) StartSandbox(cfg spec.Config) (*sandbox.Box, error) { return fl.boxes.Start(cfg) }

// noteShortage has the guard look, if err says that a sandbox could not be had for want of something.
func (fl *Fleet) noteShortage(err error) {
	if !spec.Short(err) {
		return
	}
	select {
	case fl.starved <- struct{}{}:
	default: // it will look
	}
}
