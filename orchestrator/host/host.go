// Package host is the embedded sprite host: an [http.Handler] that speaks the Sprites API and runs sprites on this
// machine. It lets everything work on one laptop with no account, and the same clients (our own and the official ones)
// work against it unmodified.
//
// Start at [Open]. A sprite is a *layer* (package layer): its files, complete or what differs from the frozen layers below
// it, which sandboxes show as /. A checkpoint is a pointer to a frozen layer. A *box* (package sandbox) is
// started with the first command, serves all of them, and ends with a restore, a deletion or the host. A *session* is
// one command in a box; clients come and go while it runs.
//
// # Storage
//
// Everything lies below Config.Dir (mode 0700):
//
//	host.db         the single source of truth: which sprites, checkpoints and layers exist, and how they hang together
//	layers/<ulid>/  the layers; complete before host.db refers to them, and synced or called not durable
//	base/           the folders that a root needs: the lowest layer of every overlay, or the next one above an image
//	images/         what sprites start from; see package image
//	trees/<ulid>/   layers of earlier versions
//	tmp/<ulid>      layers being made; wiped at start
//	trash/<ulid>    layers nobody refers to, being removed; wiped at start
//	links/          links to a shared Go build cache; see shared.go
//	run/<id>/       shown as /.sprite inside: the socket through which a sprite checkpoints itself
//	cache/<id>/     shown as /var/cache/sprite inside; never checkpointed. Its Go build cache begins with links to a shared
//	                one (Config.Shared), which sprites read only
//
// A directory that host.db does not refer to is garbage and goes at start. A layer that host.db refers to and that is
// missing makes its sprite degraded: it refuses work until a checkpoint is restored, and is never recreated empty.
//
// # Locks
//
// Each sprite has a gate. Commands, file calls and connections pass it together; checkpoints, forks, restores and deletion
// pass it alone. The file DESIGN.md in this folder has the order of locks and the parts that a host is made of.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/initfile"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// Host serves sprites. Make it with Open; Close ends all that it runs.
type Host struct {
	core    *core
	handler http.Handler

	confiner *confiner
	layers   *layerStore
	settler  *settler
	merger   *merger
	network  *networkPolicy
	skills   *skillFolders
	caches   *goCaches
	fleet    *fleet

	services *serviceAPI
	execs    *execAPI
	files    *fileAPI
	reach    *reachAPI
	policies *policyAPI
	images   *imageAPI
	catalog  *spriteAPI
	history  *historyAPI

	warm sync.Once // see WarmGoSoon
}

// Open opens or makes the host's directory and removes what a crash left there. It starts no sprite. A directory that
// another process serves is an error.
func Open(cfg Config) (*Host, error) {
	if cfg.Dir == "" || cfg.Self == "" {
		return nil, errors.New("open sprite host: Dir and Self must be given")
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	return open(cfg, func(string) {})
}

func open(cfg Config, step func(string)) (*Host, error) {
	ctx, cancel := context.WithCancel(context.Background())
	h := newHost(&core{
		cfg: cfg, now: func() time.Time { return time.Now().UTC() }, clock: time.Now, step: step, pingEvery: pingEvery,
		ctx: ctx, cancel: cancel,
	})
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	var err error
	if h.core.store, err = openStore(cfg.Dir, h.core.now()); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	// With the store open, the directory is this process's alone.
	if init, err := initfile.Install(cfg.Dir); err != nil {
		cfg.Log.Warn().Err(err).Msg("start sandboxes by lattice itself")
	} else if init != "" {
		h.core.cfg.Self = init
	}
	if err := sandbox.Sweep(); err != nil {
		cfg.Log.Warn().Err(err).Msg("remove what sandboxes of a host that was killed left behind")
	}
	if err := h.history.sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sprite host: clean up: %w", err), h.core.store.close())
	}
	if err := h.layers.openImages(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sprite host: %w", err), h.core.store.close())
	}
	h.execs.numberFrom(h.core.store.sessions)
	h.handler = h.routes()
	h.fleet.guard()
	if cfg.URLs != "" {
		if err = h.reach.openURLs(cfg.URLs); err != nil {
			return nil, errors.Join(fmt.Errorf("serve the URLs of sprites: %w", err), h.Close())
		}
	}
	return h, nil
}

// newHost puts a host together from its parts, each of which knows those above it in this list only.
func newHost(c *core) *Host {
	h := &Host{core: c}
	h.confiner = newConfiner(c)
	h.layers = newLayerStore(c, h.confiner)
	h.settler = newSettler(c, h.layers)
	h.merger = newMerger(c, h.layers, h.settler)
	h.network = newNetworkPolicy(c, h.confiner)
	h.skills = newSkillFolders(c)
	h.caches = newGoCaches(c, h.confiner)
	h.fleet = newFleet(c, h.confiner, h.layers, h.network, h.skills, h.caches)

	h.services = newServiceAPI(c, h.fleet)
	h.execs = newExecAPI(c, h.fleet)
	h.files = newFileAPI(c, h.fleet, h.confiner, h.layers, h.skills)
	h.policies = newPolicyAPI(c, h.fleet, h.confiner, h.network)
	h.images = newImageAPI(c, h.confiner, h.layers)
	h.reach = newReachAPI(c, h.fleet)
	h.catalog = newSpriteAPI(c, spriteParts{
		fleet: h.fleet, confiner: h.confiner, layers: h.layers, network: h.network, skills: h.skills, images: h.images, urls: h.reach,
	})
	h.history = newHistoryAPI(c, historyParts{sprites: h.fleet, catalog: h.catalog, layers: h.layers, merger: h.merger, settler: h.settler})
	h.fleet.inside = h.insideRoutes
	return h
}

// Handler serves the API. It may be used by several servers at once.
func (h *Host) Handler() http.Handler { return h.handler }

// Isolation says how firmly sprites are kept apart here, as was found out by making a sandbox: ns-root, ns-user or process
// (see sandbox.Level); "" where none starts at all. The first call makes one.
func (h *Host) Isolation() string { return string(h.confiner.confined().isolation) }

// Mode describes for people by which mechanism sprites are kept apart: "namespaces", or "plain process tree" and why.
// The first call starts and ends a sandbox to find out.
func (h *Host) Mode() string { return h.confiner.confined().text }

// Warning is the sentence to show a person before anything runs in a sprite: which protection is missing, why, and what
// helps. It is "" when nothing is missing.
func (h *Host) Warning() string { return h.confiner.confined().warning }

// Close refuses further requests, ends every command and sandbox, waits for all goroutines and closes the database.
// Calling it again does nothing.
func (h *Host) Close() error {
	if !h.fleet.shut() {
		return nil
	}
	h.core.cancel()

	err := h.fleet.close()
	h.core.chores.Wait()
	h.core.guards.Wait()
	if err := errors.Join(err, h.reach.close(), h.core.store.close()); err != nil {
		return fmt.Errorf("close sprite host: %w", err)
	}
	return nil
}

// CheckIsolation says why nothing runs in sprites of this host, nil when it does: its Config.MinIsolation asks for more than
// this machine has.
func (h *Host) CheckIsolation() error { return h.CheckIsolationFor("") }

// CheckIsolationFor is CheckIsolation of a sprite that is to be kept apart at least so firmly.
func (h *Host) CheckIsolationFor(least sandbox.Level) error {
	return h.confiner.requireIsolation("", least)
}

// ImportImage brings an image in, unless it is there already, and returns its digest. ref is an absolute path or an image
// that is there; progress may be nil.
func (h *Host) ImportImage(ctx context.Context, ref, name string, progress func(text string)) (digest string, err error) {
	img, err := h.images.importImage(ctx, ref, name, progress)
	return img.Digest, err
}

// Audit looks at all of host.db: pages, and whether the records can be read and fit together. Requests wait meanwhile.
func (h *Host) Audit() (Audit, error) { return h.core.store.audit() }

// WarmGoSoon makes the shared Go build cache of the standard library in the background, at the lowest priority, where there
// is none yet. It does nothing after its first call. A warming that the end of the host cuts off goes on with the next one.
func (h *Host) WarmGoSoon() {
	h.warm.Do(func() {
		if _, toolchain := SharedGo(h.core.cfg.Shared); toolchain != "" {
			return
		}
		done, ok := h.fleet.admit()
		if !ok {
			return
		}
		defer done()
		h.core.guards.Go(func() {
			if _, err := h.caches.WarmGo(h.core.ctx, io.Discard, "std"); err != nil && h.core.ctx.Err() == nil {
				h.core.cfg.Log.Info().Err(err).Msg("no shared Go build cache")
			}
		})
	})
}

// WarmGo makes the shared Go build cache; see package share.
func (h *Host) WarmGo(ctx context.Context, out io.Writer, packages ...string) (toolchain string, err error) {
	return h.caches.WarmGo(ctx, out, packages...)
}

// Disk names the present run of the system and the mount of the disk that the sprites are on. When it is another one than
// before, what was not synced may be torn. It is "" where that cannot be told.
func (h *Host) Disk() string { return h.core.Disk() }
