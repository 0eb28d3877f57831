// Package host is the embedded sprite host: an [http.Handler] that speaks the Sprites API and runs sprites on this
// machine. It lets everything work on one laptop with no account, and the same clients (our own and the official ones)
// work against it unmodified.
//
// Start at [Open]. A sprite is a *layer* (package layer): its files, complete or the differences from the frozen layers below
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
//	images/         images that sprites start from; see package image
//	trees/<ulid>/   layers of earlier versions
//	tmp/<ulid>      layers being made; wiped at start
//	trash/<ulid>    layers without references, being removed; wiped at start
//	links/          links to a shared Go build cache; see package share
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

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/catalog"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/execs"
	"github.com/spritekit/lattice/orchestrator/host/fileapi"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/history"
	"github.com/spritekit/lattice/orchestrator/host/initfile"
	"github.com/spritekit/lattice/orchestrator/host/network"
	"github.com/spritekit/lattice/orchestrator/host/reach"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/services"
	"github.com/spritekit/lattice/orchestrator/host/share"
	"github.com/spritekit/lattice/orchestrator/host/storage"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Host serves sprites. Make it with Open; Close ends all that it runs.
type Host struct {
	core    *core.Core
	handler http.Handler

	confiner *confine.Confiner
	layers   *storage.Store
	settler  *storage.Settler
	merger   *storage.Merger
	network  *network.Policy
	skills   *share.Skills
	caches   *share.GoCaches
	fleet    *fleet.Fleet

	services *services.API
	execs    *execs.API
	files    *fileapi.API
	reach    *reach.API
	policies *reach.Policies
	images   *catalog.Images
	catalog  *catalog.API
	history  *history.API

	warm sync.Once // see WarmGoSoon
}

// Open opens or makes the host's directory and removes the remains of a crash. It starts no sprite. A directory that
// another process serves is an error.
func Open(cfg core.Config) (*Host, error) {
	if cfg.Dir == "" || cfg.Self == "" {
		return nil, errors.New("open sprite host: Dir and Self must be given")
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	return open(cfg, func(string) {})
}

func open(cfg core.Config, step func(string)) (*Host, error) {
	ctx, cancel := context.WithCancel(context.Background())
	h := newHost(&core.Core{
		Config: cfg, Now: func() time.Time { return time.Now().UTC() }, Clock: time.Now, Step: step, PingEvery: wire.PingEvery,
		Context: ctx, Cancel: cancel,
	})
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	var err error
	if h.core.Store, err = records.Open(cfg.Dir, h.core.Now()); err != nil {
		return nil, fmt.Errorf("open sprite host: %w", err)
	}
	// With the store open, the directory is this process's alone.
	if init, err := initfile.Install(cfg.Dir); err != nil {
		cfg.Log.Warn().Err(err).Msg("start sandboxes by lattice itself")
	} else if init != "" {
		h.core.Config.Self = init
	}
	if err := cgroup.Sweep(); err != nil {
		cfg.Log.Warn().Err(err).Msg("remove what sandboxes of a host that was killed left behind")
	}
	if err := h.history.Sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sprite host: clean up: %w", err), h.core.Store.Close())
	}
	if err := h.layers.OpenImages(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sprite host: %w", err), h.core.Store.Close())
	}
	h.execs.NumberFrom(h.core.Store.Sessions)
	h.handler = h.routes()
	h.fleet.Guard()
	if cfg.URLs != "" {
		if err = h.reach.OpenURLs(cfg.URLs); err != nil {
			return nil, errors.Join(fmt.Errorf("serve the URLs of sprites: %w", err), h.Close())
		}
	}
	return h, nil
}

// newHost puts a host together from its parts, each of which knows those above it in this list only.
func newHost(c *core.Core) *Host {
	h := &Host{core: c}
	h.confiner = confine.NewConfiner(c)
	h.layers = storage.NewStore(c, h.confiner)
	h.settler = storage.NewSettler(c, h.layers)
	h.merger = storage.NewMerger(c, h.layers, h.settler)
	h.network = network.NewPolicy(c, h.confiner)
	h.skills = share.NewSkills(c)
	h.caches = share.NewGoCaches(c, h.confiner)
	h.fleet = fleet.New(c, h.confiner, h.layers, h.network, h.skills, h.caches)

	h.services = services.NewAPI(c, h.fleet)
	h.execs = execs.NewAPI(c, h.fleet)
	h.files = fileapi.NewAPI(c, h.fleet, h.confiner, h.layers, h.skills)
	h.policies = reach.NewPolicies(c, h.fleet, h.confiner, h.network)
	h.images = catalog.NewImages(c, h.confiner, h.layers)
	h.reach = reach.NewAPI(c, h.fleet)
	h.catalog = catalog.NewAPI(c, catalog.Parts{
		Fleet: h.fleet, Confiner: h.confiner, Layers: h.layers, Network: h.network, Skills: h.skills, Images: h.images, URLs: h.reach,
	})
	h.history = history.NewAPI(c, history.Parts{Sprites: h.fleet, Catalog: h.catalog, Layers: h.layers, Merger: h.merger, Settler: h.settler})
	h.fleet.Inside = h.insideRoutes
	return h
}

// Handler serves the API. It may be used by several servers at once.
func (h *Host) Handler() http.Handler { return h.handler }

// Isolation says how firmly sprites are kept apart here, as was found out by making a sandbox: ns-root, ns-user or process
// (see spec.Level); "" where none starts at all. The first call makes one.
func (h *Host) Isolation() string { return string(h.confiner.Confined().Isolation) }

// Mode describes for people by which mechanism sprites are kept apart: "namespaces", or "plain process tree" and why.
// The first call starts and ends a sandbox to find out.
func (h *Host) Mode() string { return h.confiner.Confined().Text }

// Warning is the sentence to show a person before anything runs in a sprite: which protection is missing, why, and which step
// helps. It is "" when nothing is missing.
func (h *Host) Warning() string { return h.confiner.Confined().Warning }

// Close refuses further requests, ends every command and sandbox, waits for all goroutines and closes the database.
// Calling it again does nothing.
func (h *Host) Close() error {
	if !h.fleet.Shut() {
		return nil
	}
	h.core.Cancel()

	err := h.fleet.Close()
	h.core.Chores.Wait()
	h.core.Guards.Wait()
	if err := errors.Join(err, h.reach.Close(), h.core.Store.Close()); err != nil {
		return fmt.Errorf("close sprite host: %w", err)
	}
	return nil
}

// CheckIsolation says why nothing runs in sprites of this host, nil when it does: its Config.MinIsolation asks for more than
// this machine has.
func (h *Host) CheckIsolation() error { return h.CheckIsolationFor("") }

// CheckIsolationFor is CheckIsolation of a sprite that is to be kept apart at least so firmly.
func (h *Host) CheckIsolationFor(least spec.Level) error {
	return h.confiner.RequireIsolation("", least)
}

// ImportImage brings an image in, unless it is there already, and returns its digest. ref is an absolute path or an image
// that is there; progress may be nil.
func (h *Host) ImportImage(ctx context.Context, ref, name string, progress func(text string)) (digest string, err error) {
	img, err := h.images.ImportImage(ctx, ref, name, catalog.InWords(progress))
	return img.Digest, err
}

// Audit looks at all of host.db: pages, and whether the records can be read and fit together. Requests wait until it returns.
func (h *Host) Audit() (records.Audit, error) { return h.core.Store.Audit() }

// WarmGoSoon makes the shared Go build cache of the standard library in the background, at the lowest priority, where there
// is none yet. It does nothing after its first call. A warming that the end of the host cuts off goes on with the next one.
func (h *Host) WarmGoSoon() {
	h.warm.Do(func() {
		if _, toolchain := share.SharedGo(h.core.Config.Shared); toolchain != "" {
			return
		}
		done, ok := h.fleet.Admit()
		if !ok {
			return
		}
		defer done()
		h.core.Guards.Go(func() {
			if _, err := h.caches.WarmGo(h.core.Context, io.Discard, "std"); err != nil && h.core.Context.Err() == nil {
				h.core.Config.Log.Info().Err(err).Msg("no shared Go build cache")
			}
		})
	})
}

// WarmGo makes the shared Go build cache; see package share.
func (h *Host) WarmGo(ctx context.Context, out io.Writer, packages ...string) (toolchain string, err error) {
	return h.caches.WarmGo(ctx, out, packages...)
}

// Disk names the present run of the system and the mount of the disk that the sprites are on. When it is another one than
// before, files that were not synced may be torn. It is "" where that cannot be told.
func (h *Host) Disk() string { return h.core.Disk() }
