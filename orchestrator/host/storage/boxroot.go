package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/spritekit/durable"
)

// BoxRoot returns the root of a box that shows the files that end in the given layer.
func (ls *Store) BoxRoot(id string) (spec.Root, []records.Layer, error) {
	chain, err := ls.Store.Chain(id)
	if err != nil {
		return spec.Root{}, nil, err
	}
	top := chain[0]
	if top.Driver != layer.Overlay {
		return spec.Root{Dir: ls.DataDir(top), Host: top.Image == ""}, chain, nil
	}
	root := spec.Root{Host: top.Image == ""}
	if !top.Frozen {
		root.Upper, root.Work = layer.Data(ls.LayerDir(id)), layer.Work(ls.LayerDir(id))
		chain = chain[1:]
	}
	for _, l := range chain {
		root.Lower = append(root.Lower, ls.DataDir(l))
	}
	root.Lower = append(root.Lower, ls.base())
	if top.Image != "" {
		root.Lower = append(root.Lower, ls.Images.Dir(top.Image))
	}
	if !top.Frozen {
		chain = append([]records.Layer{top}, chain...)
	}
	return root, chain, nil
}

// base is the lowest layer of every overlay.
func (ls *Store) base() string { return filepath.Join(ls.Config.Dir, "base") }

// Folders lists the folders that show the files that end in the given layer, topmost first, for work from outside.
func (ls *Store) Folders(id string) ([]string, error) {
	root, _, err := ls.BoxRoot(id)
	switch {
	case err != nil:
		return nil, err
	case root.Dir != "":
		return []string{root.Dir}, nil
	case root.Upper != "":
		return append([]string{root.Upper}, root.Lower...), nil
	}
	return root.Lower, nil
}

// makeBase makes the lowest layer of overlays, once for the life of the directory: overlays remember their lower layers.
func (ls *Store) makeBase(d layer.Driver) error {
	if !d.Stacks() {
		return nil
	}
	if exists(ls.base()) { // of an earlier version, perhaps, which had fewer folders
		uid, gid := ls.confiner.Owner()
		return spec.Skeleton(ls.base(), uid, gid)
	}
	uid, gid := ls.confiner.RootOwner()
	staged := filepath.Join(ls.TempDir(), "base")
	if err := os.Mkdir(staged, 0o755); err != nil {
		return fmt.Errorf("make the base of sprites: %w", err)
	}
	err := os.Chmod(staged, 0o755)
	if err == nil && uid >= 0 {
		err = os.Lchown(staged, uid, gid)
	}
	if err == nil {
		uid, gid = ls.confiner.Owner()
		err = spec.Skeleton(staged, uid, gid)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(staged), os.Rename(staged, ls.base()), durable.SyncDir(ls.Config.Dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the base of sprites: %w", err), core.RemoveAll(staged))
	}
	return nil
}
