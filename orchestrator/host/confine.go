package host

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// confinement says how this machine lets us keep sprites apart.
type confinement struct {
	plain      bool                  // namespaces are refused
	isolation  sandbox.Level         // what boxes get; "" when none starts
	downgrade  *sprites.Downgrade    // why it is plain, nil when it is not
	limits     []sandbox.Enforcement // how boxes' limits are kept
	text       string                // for people
	warning    string                // what a person must know before running anything, "" when all is well
	ownIDs     bool                  // each box has user ids that no other has
	netns      bool                  // boxes can have a network of their own
	redirects  bool                  // and what leaves it can be redirected
	noRedirect string                // why not
}

// level is what boxes are asked for: the firmest that works.
func (c confinement) level() sandbox.Level {
	if c.plain {
		return sandbox.LevelProcess
	}
	return ""
}

// confiner finds out how firmly this machine keeps sprites apart, and holds them to it.
type confiner struct {
	*core
	confined func() confinement // probes until it knows
}

func newConfiner(c *core) *confiner {
	cf := &confiner{core: c}
	cf.confined = cf.probed()
	return cf
}

// probed remembers what a probe found, once it found something: what is in the way for a moment only is tried again by the
// next who asks, and never taken for less isolation than this machine has.
func (cf *confiner) probed() func() confinement {
	var mu sync.Mutex
	var found confinement
	return func() confinement {
		mu.Lock()
		defer mu.Unlock()
		if found.isolation != "" {
			return found
		}
		key := cf.probeKey()
		if kept, ok := cf.recallProbe(key); ok {
			found = kept
			return found
		}
		found = cf.probe()
		cf.keepProbe(key, found)
		return found
	}
}

// probe starts and ends a box on an empty tree to see which mechanism works here.
func (cf *confiner) probe() confinement {
	dir, err := os.MkdirTemp(filepath.Join(cf.cfg.Dir, "tmp"), "probe-")
	if err != nil {
		return confinement{netns: true, text: "unknown: " + err.Error()}
	}
	defer os.RemoveAll(dir)
	cfg := sandbox.Config{
		Self: cf.cfg.Self, Root: sandbox.Root{Dir: filepath.Join(dir, "root"), Host: true}, Skills: cf.cfg.Skills, Tools: cf.tools(spriteRecord{}),
		Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache"),
	}
	for _, d := range []string{cfg.Root.Dir, cfg.Run, cfg.Cache} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return confinement{netns: true, text: "unknown: " + err.Error()}
		}
	}
	found := confinement{netns: true}
	cfg.Network = cf.cfg.Network.Preset != ""
	box, err := sandbox.Start(cfg)
	var refusal *sandbox.Refusal
	if cfg.Network && errors.As(err, &refusal) {
		found, cfg.Network = confinement{noRedirect: refusal.Error()}, false
		box, err = sandbox.Start(cfg)
	}
	switch {
	case errors.As(err, &refusal):
		limits, failed := cf.tryPlain(cfg)
		if failed != nil {
			return confinement{plain: true, text: "none, sandboxes do not start: " + failed.Error()}
		}
		return confinement{
			plain: true, isolation: sandbox.LevelProcess, limits: limits,
			downgrade: &sprites.Downgrade{Reason: refusal.Step + ": " + refusal.Cause, Remedy: refusal.Remedy}, text: "plain process tree (" + err.Error() + ")",
			warning: "sprites run as a plain process tree, and nothing keeps them from this machine's files: " + err.Error(),
		}
	case err != nil:
		return confinement{netns: true, noRedirect: err.Error(), text: "none, sandboxes do not start: " + err.Error()}
	}
	found.text, found.isolation, found.limits = "namespaces", box.Level(), box.Enforced()
	if box.Level() == sandbox.LevelRoot {
		err := sandbox.TryOwnIDs(cf.cfg.Self, filepath.Join(cf.cfg.Dir, "tmp"))
		if found.ownIDs = err == nil; err != nil {
			cf.cfg.Log.Warn().Err(err).Msg("sprites share their user ids, and with them what the kernel counts for each user")
		}
	}
	if n := box.Network(); n != nil {
		found.redirects, found.noRedirect = n.Redirected, n.Why
		n.Close()
	}
	if err := box.Stop(); err != nil {
		found.text += ", but the first one did not end cleanly: " + err.Error()
	}
	return found
}

// tryPlain starts and ends a plain box, and tells how its limits are kept.
func (cf *confiner) tryPlain(cfg sandbox.Config) ([]sandbox.Enforcement, error) {
	cfg.Level, cfg.Network = sandbox.LevelProcess, false
	box, err := sandbox.Start(cfg)
	if err != nil {
		return nil, err
	}
	return box.Enforced(), box.Stop()
}

// noRoot says why sprites have no root of their own, "" when they have one.
func (cf *confiner) noRoot() string {
	switch {
	case cf.cfg.NoRoot:
		return "it is turned off on this host (no_root in the settings)"
	case cf.confined().isolation != sandbox.LevelRoot:
		return "its host is run by an ordinary user, whose sprites have one user each; run lattice as root, or start the sprite from an image that has what is missing"
	}
	return ""
}

// owner is the host user and group that commands run as, and that own what the host writes for them.
func (cf *confiner) owner() (uid, gid int) {
	uid, gid = sandbox.Config{Level: cf.confined().level()}.Owner()
	if os.Getuid() != 0 {
		return -1, -1 // files of ours are already theirs, or cannot be given
	}
	return uid, gid
}

// rootOwner is who / of a sprite belongs to; -1, -1 where that is this process's own user.
func (cf *confiner) rootOwner() (uid, gid int) {
	if uid, gid = cf.owner(); uid < 0 {
		return uid, gid
	}
	return uid - insideUser, gid - insideUser
}

// insideUser is the id that a sprite's commands have inside.
const insideUser = 1000

// imagesWork says why sprites cannot start from images here, nil when they can.
func (cf *confiner) imagesWork() error {
	if c := cf.confined(); c.plain {
		return newError(http.StatusConflict, "isolation_unavailable", "sprites start from images only where they are kept apart by namespaces, and here they are a "+c.text+
			"; lattice doctor says what helps, or use a sprite without an image (image \"none\")")
	}
	return nil
}
