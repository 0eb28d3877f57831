package storage

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// chooseDriver chooses the driver of new sprites: the one that the configuration names, else snapshots where the data is on
// btrfs, overlays where boxes can mount them, and copies elsewhere. It tries the driver first.
func (ls *Store) chooseDriver() (layer.Driver, error) {
	switch kind := ls.Config.Storage; {
	case kind == layer.Overlay && ls.confiner.Confined().Plain:
		return nil, errNoOverlay
	case kind != "":
		d, err := layer.Open(kind)
		if err == nil {
			err = ls.TryDriver(d)
		}
		if err != nil {
			return nil, fmt.Errorf("choose how to store sprites: %w", err)
		}
		return d, ls.makeBase(d)
	}
	for _, kind := range ls.preferredDrivers() {
		d, err := layer.Open(kind)
		if err == nil {
			err = ls.TryDriver(d)
		}
		if err == nil {
			return d, ls.makeBase(d)
		}
		ls.Config.Log.Warn().Err(err).Str("driver", string(kind)).Msg("storage driver does not work here; trying the next")
	}
	return layer.Open(layer.CAS)
}

// preferredDrivers lists the drivers to try before copies.
func (ls *Store) preferredDrivers() []layer.Kind {
	switch {
	case layer.OnBtrfs(ls.Config.Dir):
		return []layer.Kind{layer.Btrfs}
	case ls.confiner.Confined().Plain:
		return nil
	}
	return []layer.Kind{layer.Overlay}
}

var errNoOverlay = wire.Refuse(http.StatusConflict, "storage_unavailable",
	"these files are kept in overlays, which need namespaces, and this system refuses them; see `lattice doctor`, or start the host with another storage driver")

// Open returns the driver of a layer.
func (ls *Store) Open(l records.Layer) (layer.Driver, error) {
	if l.Driver == layer.Overlay && ls.confiner.Confined().Plain {
		return nil, errNoOverlay
	}
	return layer.Open(l.Driver)
}

// TryDriver makes a layer, writes to it, goes on from it as after a checkpoint, and removes both.
func (ls *Store) TryDriver(d layer.Driver) (err error) {
	dir, err := os.MkdirTemp(ls.TempDir(), "driver-")
	if err != nil {
		return fmt.Errorf("try storage driver %s: %w", d.Kind(), err)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	defer func() {
		err = errors.Join(err, d.Remove(first), d.Remove(second), core.RemoveAll(dir))
		if err != nil {
			err = fmt.Errorf("try storage driver %s in %s: %w", d.Kind(), ls.Config.Dir, err)
		}
	}()
	uid, gid := ls.confiner.RootOwner()
	if err := d.Make(first, uid, gid); err != nil {
		return err
	}
	if !d.Stacks() {
		return d.Clone(ls.Context, first, second)
	}
	if err := d.Make(second, uid, gid); err != nil {
		return err
	}
	uid, gid = ls.confiner.Owner()
	if err := spec.Skeleton(layer.Data(first), uid, gid); err != nil {
		return err
	}
	cfg := spec.Config{
		Self: ls.Config.Self, Level: ls.confiner.Confined().Level(), OwnIDs: ls.confiner.Confined().OwnIDs, SubIDs: ls.confiner.Confined().SubIDs, Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache"),
		Root: spec.Root{Upper: layer.Data(second), Work: layer.Work(second), Lower: []string{layer.Data(first)}, Host: true},
	}
	if err := errors.Join(os.Mkdir(cfg.Run, 0o755), os.Mkdir(cfg.Cache, 0o755)); err != nil {
		return err
	}
	box, err := sandbox.Start(cfg)
	if err != nil {
		return err
	}
	return box.Stop()
}
