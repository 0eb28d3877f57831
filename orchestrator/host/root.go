package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// root says what a box shows as the files that end in the given layer.
func (ls *layerStore) root(id string) (sandbox.Root, []layerRecord, error) {
	chain, err := ls.store.chain(id)
	if err != nil {
		return sandbox.Root{}, nil, err
	}
	top := chain[0]
	if top.Driver != layer.Overlay {
		return sandbox.Root{Dir: ls.dataDir(top), Host: top.Image == ""}, chain, nil
	}
	root := sandbox.Root{Host: top.Image == ""}
	if !top.Frozen {
		root.Upper, root.Work = layer.Data(ls.layerDir(id)), layer.Work(ls.layerDir(id))
		chain = chain[1:]
	}
	for _, l := range chain {
		root.Lower = append(root.Lower, ls.dataDir(l))
	}
	root.Lower = append(root.Lower, ls.base())
	if top.Image != "" {
		root.Lower = append(root.Lower, ls.images.Dir(top.Image))
	}
	if !top.Frozen {
		chain = append([]layerRecord{top}, chain...)
	}
	return root, chain, nil
}

// base is the lowest layer of every overlay.
func (ls *layerStore) base() string { return filepath.Join(ls.cfg.Dir, "base") }

// stack lists the folders that show the files that end in the given layer, topmost first, for work from outside.
func (ls *layerStore) stack(id string) ([]string, error) {
	root, _, err := ls.root(id)
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

// makeBase makes the lowest layer of overlays, once for the life of the directory: overlays remember what they lay on.
func (ls *layerStore) makeBase(d layer.Driver) error {
	if !d.Stacks() {
		return nil
	}
	if exists(ls.base()) { // of an earlier version, perhaps, which had fewer folders
		uid, gid := ls.confiner.owner()
		return sandbox.Skeleton(ls.base(), uid, gid)
	}
	uid, gid := ls.confiner.rootOwner()
	staged := filepath.Join(ls.tmpDir(), "base")
	if err := os.Mkdir(staged, 0o755); err != nil {
		return fmt.Errorf("make the base of sprites: %w", err)
	}
	err := os.Chmod(staged, 0o755)
	if err == nil && uid >= 0 {
		err = os.Lchown(staged, uid, gid)
	}
	if err == nil {
		uid, gid = ls.confiner.owner()
		err = sandbox.Skeleton(staged, uid, gid)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(staged), os.Rename(staged, ls.base()), durable.SyncDir(ls.cfg.Dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the base of sprites: %w", err), removeAll(staged))
	}
	return nil
}
