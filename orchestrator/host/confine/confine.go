// Package confine finds out how firmly this machine can isolate sprites, and refuses sprites that need more. Start at
// [Confiner]. It never lowers a level by itself: a sandbox that does not start at its level does not start.
package confine

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/subids"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Probed remembers the result of a probe that succeeded: after a temporary failure the probe is repeated by the
// next caller, and never taken for less isolation than this machine has.
func (cf *Confiner) Probed() func() Confinement {
	var mu sync.Mutex
	var found Confinement
	return func() Confinement {
		mu.Lock()
		defer mu.Unlock()
		if found.Isolation != "" {
			return found
		}
		key := cf.probeKey()
		if kept, ok := cf.recallProbe(key); ok {
			found = kept
			return found
		}
		found = cf.probeMechanism()
		cf.keepProbe(key, found)
		return found
	}
}

// probeMechanism starts and ends a box on an empty tree to see which mechanism works here.
func (cf *Confiner) probeMechanism() Confinement {
	dir, err := os.MkdirTemp(filepath.Join(cf.Config.Dir, "tmp"), "probe-")
	if err != nil {
		return Confinement{Netns: true, Text: "unknown: " + err.Error()}
	}
	defer os.RemoveAll(dir)
	cfg := spec.Config{
		Self: cf.Config.Self, Root: spec.Root{Dir: filepath.Join(dir, "root"), Host: true}, Skills: cf.Config.Skills, Tools: cf.Tools(records.Sprite{}),
		Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache"),
	}
	for _, d := range []string{cfg.Root.Dir, cfg.Run, cfg.Cache} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return Confinement{Netns: true, Text: "unknown: " + err.Error()}
		}
	}
	found := Confinement{Netns: true}
	cfg.AsRoot = !cf.Config.NoRoot
	cfg.Network = cf.Config.Network.Preset != ""
	cfg.SubIDs, found.OneUser = cf.findSubIDs()
	box, err := sandbox.Start(cfg)
	var refusal *spec.Refusal
	if errors.As(err, &refusal) && refusal.Step == spec.StepSubIDs {
		cfg.SubIDs, found.OneUser = subids.Range{}, refusal.Cause+"; "+refusal.Remedy
		box, err = sandbox.Start(cfg)
	}
	if cfg.Network && errors.As(err, &refusal) {
		found.Netns, found.NoRedirect, cfg.Network = false, refusal.Error(), false
		box, err = sandbox.Start(cfg)
	}
	switch {
	case errors.As(err, &refusal):
		limits, failed := cf.tryPlain(cfg)
		if failed != nil {
			return Confinement{Plain: true, Text: "none, sandboxes do not start: " + failed.Error()}
		}
		return Confinement{
			Plain: true, Isolation: spec.LevelProcess, Limits: limits,
			Downgrade: &sprites.Downgrade{Reason: refusal.Step + ": " + refusal.Cause, Remedy: refusal.Remedy}, Text: "plain process tree (" + err.Error() + ")",
			Warning: "sprites run as a plain process tree, and nothing keeps them from this machine's files: " + err.Error(),
		}
	case err != nil:
		return Confinement{Netns: true, NoRedirect: err.Error(), Text: "none, sandboxes do not start: " + err.Error()}
	}
	found.Text, found.Isolation, found.Limits, found.NoRoot = "namespaces", box.Level(), box.Limits().Enforced(), box.NoRoot()
	found.SubIDs = cfg.SubIDs
	if box.Level() == spec.LevelRoot {
		err := sandbox.TryOwnIDs(cf.Config.Self, filepath.Join(cf.Config.Dir, "tmp"))
		if found.OwnIDs = err == nil; err != nil {
			cf.Config.Log.Warn().Err(err).Msg("sprites share their user ids, and with them what the kernel counts for each user")
		}
	}
	if n := box.Network(); n != nil {
		found.Redirects, found.NoRedirect = n.Redirected, n.Why
		n.Close()
	}
	if err := box.Stop(); err != nil {
		found.Text += ", but the first one did not end cleanly: " + err.Error()
	}
	return found
}

// findSubIDs returns the ids that sprites of an ordinary user may have, or why there are none. Only a box tells whether they work.
func (cf *Confiner) findSubIDs() (ids subids.Range, why string) {
	switch {
	case spec.Best() != spec.LevelUser:
		return subids.Range{}, ""
	case cf.Config.OneUser:
		return subids.Range{}, "the settings of this host give sprites one user each (one_user)"
	}
	ids, err := subids.Find()
	if missing := (*subids.Missing)(nil); errors.As(err, &missing) {
		return ids, missing.Cause + "; " + missing.Remedy
	}
	return ids, ""
}

// tryPlain starts and ends a plain box, and tells how its limits are kept.
func (cf *Confiner) tryPlain(cfg spec.Config) ([]spec.Enforcement, error) {
	cfg.Level, cfg.Network = spec.LevelProcess, false
	box, err := sandbox.Start(cfg)
	if err != nil {
		return nil, err
	}
	return box.Limits().Enforced(), box.Stop()
}

// WhyNoRoot says why sprites have no root of their own, "" when they have one.
func (cf *Confiner) WhyNoRoot() string {
	switch {
	case cf.Config.NoRoot:
		return "it is turned off on this host (no_root in the settings)"
	case cf.Confined().Isolation != spec.LevelRoot && cf.Confined().Isolation != spec.LevelUser:
		return "its host cannot make namespaces; lattice doctor says what helps"
	case cf.Confined().NoRoot != "":
		return "its host cannot give it one: " + cf.Confined().NoRoot
	}
	return ""
}

// WhyOneUser says why the root of sprites is alone, "" when sprites have all users, or no root.
func (cf *Confiner) WhyOneUser() string {
	if cf.WhyNoRoot() != "" || cf.Confined().OneUser == "" {
		return ""
	}
	return "its host is run by an ordinary user, whose sprites have one user each: " + cf.Confined().OneUser + ". Or start the sprite from an image that has what is missing"
}

// Owner is the host user and group that commands run as, and that own the files that the host writes for them.
func (cf *Confiner) Owner() (uid, gid int) {
	uid, gid = spec.Config{Level: cf.Confined().Level()}.Owner()
	if os.Getuid() != 0 {
		return -1, -1 // files of ours are already theirs, or cannot be given
	}
	return uid, gid
}

// RootOwner is who / of a sprite belongs to; -1, -1 where that is this process's own user.
func (cf *Confiner) RootOwner() (uid, gid int) {
	if uid, gid = cf.Owner(); uid < 0 {
		return uid, gid
	}
	return uid - insideUser, gid - insideUser
}

// insideUser is the id that a sprite's commands have inside.
const insideUser = 1000

// CheckImages says why sprites cannot start from images here, nil when they can.
func (cf *Confiner) CheckImages() error {
	if c := cf.Confined(); c.Plain {
		return wire.Refuse(http.StatusConflict, "isolation_unavailable", "sprites start from images only where they are kept apart by namespaces, and here they are a "+c.Text+
			"; lattice doctor says what helps, or use a sprite without an image (image \"none\")")
	}
	return nil
}
