package host

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"golang.org/x/sync/semaphore"
)

// fleet is the sprites that run: it starts and wakes them, counts the calls about them, and ends them with the host.
type fleet struct {
	*core
	confiner *confiner
	layers   *layerStore
	network  *networkPolicy
	skills   *skillFolders
	caches   *goCaches

	// inside returns the handler of what a sprite asks through its own socket.
	inside func(s *insideServer, id, name string) http.Handler

	limits  *limits
	changes changes // of sprites, for those who watch the list
	boxes   sandbox.Starter
	starved chan struct{} // a sandbox could not be started for want of something; see guardShares

	mu      boltfile.Lock // guards the fields below
	closed  bool
	calls   sync.WaitGroup     // requests being served; Add only under mu while not closed
	sprites map[string]*sprite // by id; those that run
}

func newFleet(c *core, confiner *confiner, layers *layerStore, network *networkPolicy, skills *skillFolders, caches *goCaches) *fleet {
	return &fleet{
		core: c, confiner: confiner, layers: layers, network: network, skills: skills, caches: caches,
		limits: newLimits(c.cfg.Limits), starved: make(chan struct{}, 1), sprites: map[string]*sprite{},
	}
}

// enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others. The caller calls leave when it no
// longer uses the record's tree; until then the sprite stays awake.
func (fl *fleet) enter(ctx context.Context, name string, weight int64) (s *sprite, rec spriteRecord, leave func(), err error) {
	first, err := fl.store.sprite(name)
	if err != nil {
		return nil, rec, nil, err
	}
	if s, err = fl.runtime(first); err != nil {
		return nil, rec, nil, err
	}
	release, err := s.hold()
	if err != nil {
		return nil, rec, nil, err
	}
	if weight == alone {
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
	// While we waited it may have been deleted, made anew, or restored to another tree.
	rec, err = fl.store.sprite(name)
	if err == nil && rec.ID != first.ID {
		err = errNoSprite
	}
	if err != nil {
		leave()
		return nil, rec, nil, err
	}
	return s, rec, leave, nil
}

func (fl *fleet) runtime(rec spriteRecord) (*sprite, error) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.closed {
		return nil, errHostClosed
	}
	s := fl.sprites[rec.ID]
	if s == nil {
		s = &sprite{
			fleet: fl, id: rec.ID, name: rec.Name, gate: semaphore.NewWeighted(alone),
			commands: map[string]command{}, tasks: map[string]task{}, life: lifecycle{status: cold},
		}
		s.exists, s.vanish = context.WithCancel(fl.ctx)
		s.services = newServices(s.exists, fl.core, rec.ID)
		s.listening.sprite = s
		fl.sprites[rec.ID] = s
	}
	return s, nil
}

func (fl *fleet) running() []*sprite {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	all := make([]*sprite, 0, len(fl.sprites))
	for _, s := range fl.sprites {
		all = append(all, s)
	}
	return all
}

// forget removes a sprite that was deleted.
func (fl *fleet) forget(s *sprite) {
	s.vanish()
	fl.mu.Lock()
	defer fl.mu.Unlock()
	delete(fl.sprites, s.id)
}

// admit counts a request in, so that Close waits until done is called; ok is false when the host is closed.
func (fl *fleet) admit() (done func(), ok bool) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.closed {
		return nil, false
	}
	fl.calls.Add(1)
	return fl.calls.Done, true
}

// shut has admit and runtime refuse from now on. It returns false when they do already.
func (fl *fleet) shut() bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	was := fl.closed
	fl.closed = true
	return !was
}

// boxConfig describes the box of a sprite, and names the layers that it mounts.
func (fl *fleet) boxConfig(rec spriteRecord) (sandbox.Config, []layerRecord, error) {
	root, chain, err := fl.layers.root(rec.Tree)
	if err != nil {
		return sandbox.Config{}, nil, err
	}
	points, below, err := fl.layers.pointView(rec.ID)
	if err != nil {
		return sandbox.Config{}, nil, err
	}
	cfg := sandbox.Config{
		Self: fl.cfg.Self, Root: root, Level: fl.confiner.confined().level(), Skills: fl.skills.skills(rec), Tools: fl.confiner.tools(rec), Run: fl.runDir(rec.ID), Cache: fl.cacheDir(rec.ID), OwnIDs: fl.confiner.confined().ownIDs,
		Shared: fl.caches.shareGo(rec), Network: fl.cfg.Network.Preset != "" && fl.confiner.confined().netns, Limits: fl.confiner.boxLimits(rec), Points: points,
	}
	cfg.AsRoot, cfg.NoRoot = !fl.cfg.NoRoot, fl.confiner.noRoot()
	return cfg, append(chain, below...), fl.layers.imageIn(rec, &cfg)
}

// serviceEnv is the environment of all services of a sprite, before their own.
func (fl *fleet) serviceEnv(rec spriteRecord, box *sandbox.Box) []string {
	var own []string
	for k, v := range rec.Environment {
		own = append(own, k+"="+v)
	}
	return environment(box.BaseEnv(), fl.cfg.Env, translatedEnv(box), own)
}

// servicesOf finds the services of a sprite without waking it.
func (fl *fleet) servicesOf(name string) (*services, error) {
	rec, err := fl.store.sprite(name)
	if err != nil {
		return nil, err
	}
	s, err := fl.runtime(rec)
	if err != nil {
		return nil, err
	}
	return s.services, s.services.prepare()
}

// wakeServices is servicesOf of a sprite whose sandbox is up until done is called.
func (fl *fleet) wakeServices(ctx context.Context, name string) (v *services, done func(), err error) {
	s, _, leave, err := fl.use(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	release, err := s.hold()
	leave() // a client that follows a service must not keep the sprite from being restored
	if err != nil {
		return nil, nil, err
	}
	return s.services, release, nil
}

// close ends every sprite, and waits for the calls under way. No box starts after the context of the host has ended: starting
// looks at it under the lock that stop takes.
func (fl *fleet) close() error {
	var failed []error
	for _, s := range fl.running() {
		failed = append(failed, s.stop(), s.closeSocket())
	}
	fl.boxes.Close()
	fl.calls.Wait()
	return errors.Join(failed...)
}

// guard starts the goroutines that watch the disk and what sprites share. They end with the host.
func (fl *fleet) guard() {
	fl.guards.Go(fl.guardShares)
	if fl.cfg.Reserve >= 0 {
		fl.guards.Go(fl.guardDisk)
	}
}

// startSandbox starts a box. Most of the start of the next one is done ahead.
func (fl *fleet) startSandbox(cfg sandbox.Config) (*sandbox.Box, error) { return fl.boxes.Start(cfg) }
