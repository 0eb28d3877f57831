package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/sprites/local/layer"
	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites/local/tree"
)

// Depth of a sprite's stack of layers, which costs each lookup of a name that is not there. Beyond mergeDepth the layers
// are merged in the background, at maxDepth while the caller waits.
const (
	mergeDepth = 16
	maxDepth   = 64
)

// layerDir is the folder of a layer.
func (h *Host) layerDir(id string) string { return filepath.Join(h.cfg.Dir, "layers", id) }

// dataDir is the folder that holds the files of a layer.
func (h *Host) dataDir(l layerRecord) string {
	if l.Plain {
		return filepath.Join(h.cfg.Dir, "trees", l.ID)
	}
	return layer.Data(h.layerDir(l.ID))
}

// treeDir is the files of a layer by its name alone. They are complete unless its driver is overlay.
func (h *Host) treeDir(id string) string {
	if plain := filepath.Join(h.cfg.Dir, "trees", id); exists(plain) {
		return plain
	}
	return layer.Data(h.layerDir(id))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// chooseDriver finds out what new sprites are kept in: what the configuration names, else snapshots where the data is on
// btrfs, overlays where boxes can mount them, and copies elsewhere.
func (h *Host) chooseDriver() (layer.Driver, error) {
	kind := h.cfg.Storage
	if kind == "" {
		kind = layer.CAS
		switch {
		case h.confined().plain:
		case layer.OnBtrfs(h.cfg.Dir):
			kind = layer.Btrfs
		}
	}
	d, err := layer.Open(kind)
	if err != nil {
		return nil, fmt.Errorf("choose how to store sprites: %w", err)
	}
	if kind == layer.Overlay && h.confined().plain {
		return nil, errNoOverlay
	}
	return d, nil
}

var errNoOverlay = &apiError{http.StatusConflict, "storage_unavailable",
	"these files are kept in overlays, which need namespaces, and this system refuses them; see `lattice doctor`, or start the host with another storage driver"}

// build has fill make a layer in tmp/, then moves it to its place. The folders' names are durable after it; what is in
// them is not, see settle. Nothing stays behind after an error.
func (h *Host) build(d layer.Driver, parent string, fill func(dir string) error) (l layerRecord, err error) {
	l = layerRecord{ID: ulid.Make().String(), Driver: d.Kind(), Parent: parent}
	staged, final := filepath.Join(h.tmpDir(), l.ID), h.layerDir(l.ID)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(staged), d.Remove(final))
		}
	}()
	if err := fill(staged); err != nil {
		return l, err
	}
	h.step("filled")
	if err := durable.SyncDir(staged); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := os.Rename(staged, final); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(final)); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	h.step("placed")
	return l, nil
}

// newRoot makes the layer of a new sprite: with overlay an empty one on the base, else a tree with the folders that a
// root needs.
func (h *Host) newRoot() (layerRecord, error) {
	d, err := h.driver()
	if err != nil {
		return layerRecord{}, err
	}
	if d.Stacks() {
		if err := h.makeBase(); err != nil {
			return layerRecord{}, err
		}
	}
	return h.build(d, "", func(dir string) error {
		uid, gid := h.rootOwner()
		if err := d.Make(dir, uid, gid); err != nil || d.Stacks() {
			return err
		}
		uid, gid = h.owner()
		return sandbox.Skeleton(layer.Data(dir), uid, gid)
	})
}

// onTop makes the layer of a sprite that goes on from a frozen one: an empty one on top of it, or a copy.
func (h *Host) onTop(ctx context.Context, of layerRecord) (layerRecord, error) {
	d, err := h.open(of)
	if err != nil {
		return layerRecord{}, err
	}
	if d.Stacks() {
		return h.build(d, of.top(), func(dir string) error {
			uid, gid := h.rootOwner()
			return d.Make(dir, uid, gid)
		})
	}
	return h.build(d, "", func(dir string) error { return h.clone(ctx, d, of, dir) })
}

// clone copies a layer as its driver does.
func (h *Host) clone(ctx context.Context, d layer.Driver, of layerRecord, dir string) error {
	if !of.Plain {
		return d.Clone(ctx, h.layerDir(of.ID), dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return tree.Copy(ctx, h.dataDir(of), layer.Data(dir))
}

// open returns the driver of a layer.
func (h *Host) open(l layerRecord) (layer.Driver, error) {
	if l.Driver == layer.Overlay && h.confined().plain {
		return nil, errNoOverlay
	}
	return layer.Open(l.Driver)
}

// rootOwner is who / of a sprite belongs to; -1, -1 where that is this process's own user.
func (h *Host) rootOwner() (uid, gid int) {
	if uid, gid = h.owner(); uid < 0 {
		return uid, gid
	}
	return uid - insideUser, gid - insideUser
}

// insideUser is the id that a sprite's commands have inside.
const insideUser = 1000

// root says what a box shows as the files that end in the given layer.
func (h *Host) root(id string) (sandbox.Root, []layerRecord, error) {
	chain, err := h.store.chain(id)
	if err != nil {
		return sandbox.Root{}, nil, err
	}
	top := chain[0]
	if top.Driver != layer.Overlay {
		return sandbox.Root{Dir: h.dataDir(top), Host: true}, chain, nil
	}
	root := sandbox.Root{Host: true}
	if !top.Frozen {
		root.Upper, root.Work = layer.Data(h.layerDir(id)), layer.Work(h.layerDir(id))
		chain = chain[1:]
	}
	for _, l := range chain {
		root.Lower = append(root.Lower, h.dataDir(l))
	}
	root.Lower = append(root.Lower, h.base())
	if !top.Frozen {
		chain = append([]layerRecord{top}, chain...)
	}
	return root, chain, nil
}

// base is the lowest layer of every overlay.
func (h *Host) base() string { return filepath.Join(h.cfg.Dir, "base") }

// stack lists the folders that show the files that end in the given layer, topmost first, for work from outside.
func (h *Host) stack(id string) ([]string, error) {
	root, _, err := h.root(id)
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
func (h *Host) makeBase() error {
	if exists(h.base()) {
		return nil
	}
	uid, gid := h.rootOwner()
	staged := filepath.Join(h.tmpDir(), "base")
	if err := os.Mkdir(staged, 0o755); err != nil {
		return fmt.Errorf("make the base of sprites: %w", err)
	}
	err := os.Chmod(staged, 0o755)
	if err == nil && uid >= 0 {
		err = os.Lchown(staged, uid, gid)
	}
	if err == nil {
		uid, gid = h.owner()
		err = sandbox.Skeleton(staged, uid, gid)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(staged), os.Rename(staged, h.base()), durable.SyncDir(h.cfg.Dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the base of sprites: %w", err), removeAll(staged))
	}
	return nil
}

// pin marks the layers that a box is about to mount, so that they stay until unpin even when nothing else needs them.
func (h *Host) pin(chain []layerRecord) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, l := range chain {
		h.mounted[l.ID]++
		ids = append(ids, l.ID)
	}
	return ids
}

func (h *Host) unpin(ids []string) {
	h.mu.Lock()
	var free []string
	for _, id := range ids {
		if h.mounted[id]--; h.mounted[id] == 0 {
			delete(h.mounted, id)
			free = append(free, id)
		}
	}
	h.mu.Unlock()
	var unused []string
	for _, id := range free {
		if l, err := h.store.layer(id); err == nil && l.Refs == 0 {
			unused = append(unused, id)
		}
	}
	if len(unused) == 0 {
		return
	}
	garbage, err := h.store.forgetUnused(unused, h.isMounted)
	if err != nil {
		h.cfg.Log.Warn().Err(err).Msg("forget layers that nothing needs")
	}
	h.discard(garbage...)
}

func (h *Host) isMounted(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mounted[id] > 0
}

// discard moves layers that nothing refers to any more to the trash. What it cannot move now goes at the next start.
func (h *Host) discard(garbage ...layerRecord) {
	for _, l := range garbage {
		dir := h.layerDir(l.ID)
		if l.Plain {
			dir = h.dataDir(l)
		}
		if err := h.trash(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.cfg.Log.Warn().Err(err).Str("layer", l.ID).Msg("move layer to trash")
		}
	}
	h.step("trashed")
}

// abandon discards layers whose commit failed, unless the commit happened after all.
func (h *Host) abandon(made ...layerRecord) {
	for _, l := range made {
		if _, err := h.store.layer(l.ID); errors.Is(err, errNoLayer) {
			h.discard(l)
		}
	}
}

// degraded says why the files that end in a layer cannot be used, "" when they can.
func (h *Host) degraded(id string) string {
	chain, err := h.store.chain(id)
	if err != nil {
		return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
	}
	for _, l := range chain {
		if l.Damaged != "" {
			return fmt.Sprintf("its files are not what they were (%s); restore a checkpoint or delete the sprite", l.Damaged)
		}
		if _, err := os.Lstat(h.dataDir(l)); err != nil {
			return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
		}
	}
	return ""
}

// settle makes durable what was frozen until now, then takes its digest, so that later it can be told whether it is still
// what it was.
func (h *Host) settle(ctx context.Context) error {
	h.settling.Lock()
	defer h.settling.Unlock()
	h.mu.Lock()
	torn := h.unsettled
	h.unsettled = nil
	h.mu.Unlock()
	if len(torn) == 0 {
		return nil
	}
	err := tree.Sync(filepath.Join(h.cfg.Dir, "layers"))
	if err == nil {
		err = h.store.updateLayers(torn, func(l *layerRecord) { l.Durable = true })
	}
	if err != nil {
		h.mu.Lock()
		h.unsettled = append(h.unsettled, torn...)
		h.mu.Unlock()
		return fmt.Errorf("make checkpoints durable: %w", err)
	}
	return nil
}

// settleLater has a layer that was just frozen made durable in the background, and its digest taken.
func (h *Host) settleLater(ids ...string) {
	h.mu.Lock()
	h.unsettled = append(h.unsettled, ids...)
	h.mu.Unlock()
	h.chores.Go(func() {
		err := h.settle(h.ctx)
		for _, id := range ids {
			if err == nil {
				err = h.takeDigest(id)
			}
		}
		if err != nil && h.ctx.Err() == nil {
			h.cfg.Log.Warn().Err(err).Msg("look after a new checkpoint")
		}
	})
}

// takeDigest reads a frozen layer, and keeps what it sums up to if that is not known yet.
func (h *Host) takeDigest(id string) error {
	h.reading.Lock() // one at a time: it is background work
	defer h.reading.Unlock()
	l, err := h.store.layer(id)
	if err != nil || l.Digest != "" {
		if errors.Is(err, errNoLayer) {
			return nil
		}
		return err
	}
	sum, err := tree.Digest(h.ctx, h.dataDir(l))
	if errors.Is(err, os.ErrNotExist) {
		return nil // discarded meanwhile
	}
	if err != nil {
		return err
	}
	return h.store.updateLayers([]string{id}, func(l *layerRecord) {
		l.Digest, l.Entries, l.Bytes = sum.Digest, sum.Entries, sum.Bytes
	})
}

// verify reads the files of a frozen layer again, and those below it, and records where they are not what they were.
func (h *Host) verify(ctx context.Context, id string) (damaged string, err error) {
	chain, err := h.store.chain(id)
	if err != nil {
		return "", err
	}
	for _, l := range chain {
		if why, err := h.verifyLayer(ctx, l); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (h *Host) verifyLayer(ctx context.Context, l layerRecord) (damaged string, err error) {
	if l.Damaged != "" {
		return l.Damaged, nil
	}
	if l.Digest == "" {
		return "", h.takeDigest(l.ID)
	}
	sum, err := tree.Digest(ctx, h.dataDir(l))
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case err != nil:
		damaged = err.Error()
	case sum.Digest != l.Digest:
		damaged = fmt.Sprintf("layer %s has digest %.12s, not %.12s", l.ID, sum.Digest, l.Digest)
	case !l.Unverified:
		return "", nil
	}
	return damaged, h.store.updateLayers([]string{l.ID}, func(l *layerRecord) { l.Damaged, l.Unverified = damaged, false })
}

// freezer is a box whose processes can be held for a moment.
type freezer interface {
	Freeze(ctx context.Context) (thaw func() error, err error)
}

// present is a frozen layer with a sprite's present files, and what the commit that refers to it has to store.
type present struct {
	layer layerRecord
	made  []layerRecord // new ones, the frozen one among them when it is a copy
	tree  string        // what the sprite goes on in, "" = where it is
}

// capture freezes the present files of a sprite that the caller is alone with. Where no process is left, an empty layer
// goes on top; else the layer is copied, or a snapshot taken, while processes are held as far as the driver needs that.
func (h *Host) capture(ctx context.Context, s *sprite, rec spriteRecord) (present, error) {
	now, err := h.store.layer(rec.Tree)
	if err != nil {
		return present{}, err
	}
	d, err := h.open(now)
	if err != nil {
		return present{}, err
	}
	if d.Stacks() {
		quiet, err := s.quiesce()
		if err != nil {
			return present{}, err
		}
		if quiet {
			next, err := h.onTop(ctx, now)
			return present{layer: now, made: []layerRecord{next}, tree: next.ID}, err
		}
	}
	thaw := func() error { return nil }
	if box, can := any(s.present()).(freezer); can && !d.LiveSafe() && s.present() != nil {
		if thaw, err = box.Freeze(ctx); err != nil {
			return present{}, fmt.Errorf("hold the sprite's processes: %w", err)
		}
	}
	copied, err := h.build(d, now.Parent, func(dir string) error { return h.clone(ctx, d, now, dir) })
	if err = errors.Join(err, thaw()); err != nil {
		return present{}, err
	}
	copied.Frozen = true
	return present{layer: copied, made: []layerRecord{copied}}, nil
}

// commitPresent stores what capture made: it is part of the transaction that refers to the frozen layer.
func commitPresent(tx *bolt.Tx, rec *spriteRecord, p present) error {
	for _, l := range p.made {
		if err := addLayer(tx, l); err != nil {
			return err
		}
	}
	if p.tree == "" {
		return nil
	}
	// The reference of the sprite goes from the layer that is now frozen to the new one.
	if err := changeLayer(tx, p.layer.ID, func(l *layerRecord) { l.Frozen, l.Durable = true, false; l.Refs-- }); err != nil {
		return err
	}
	rec.Tree = p.tree
	return holdLayer(tx, p.tree)
}
