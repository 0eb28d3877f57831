// Package storage keeps the layers of sprites on the disk: it makes, freezes, merges, verifies and removes them, and knows
// which ones a running sandbox has mounted.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/image"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Store makes, finds and removes layers: the files of sprites and checkpoints.
type Store struct {
	*core.Core
	confiner *confine.Confiner
	Images   *image.Store
	Driver   func() (layer.Driver, error) // of new sprites; chosen once
	spares   spares
	digests  *digests
	mounted  pins
}

func NewStore(c *core.Core, confiner *confine.Confiner) *Store {
	ls := &Store{
		Core: c, confiner: confiner, spares: spares{keep: keepSpares}, digests: newDigests(digestTurn, digestLimit),
		mounted: pins{boxes: map[string]int{}},
	}
	ls.Driver = sync.OnceValues(ls.chooseDriver)
	return ls
}

// LayerDir is the folder of a layer.
func (ls *Store) LayerDir(id string) string { return filepath.Join(ls.Config.Dir, "layers", id) }

// DataDir is the folder that holds the files of a layer.
func (ls *Store) DataDir(l records.Layer) string {
	if l.Plain {
		return filepath.Join(ls.Config.Dir, "trees", l.ID)
	}
	return layer.Data(ls.LayerDir(l.ID))
}

// TreeDir is the files of a layer by its name alone. They are complete unless its driver is overlay.
func (ls *Store) TreeDir(id string) string {
	if plain := filepath.Join(ls.Config.Dir, "trees", id); pathExists(plain) {
		return plain
	}
	return layer.Data(ls.LayerDir(id))
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Build has fill make a layer in tmp/, then moves it to its place. The folders' names are durable after it; the files in
// them is not, see settle. Nothing stays behind after an error.
func (ls *Store) Build(d layer.Driver, parent string, fill func(dir string) error) (records.Layer, error) {
	return ls.buildIn(d, parent, fill, ls.Step)
}

func (ls *Store) buildIn(d layer.Driver, parent string, fill func(dir string) error, step func(string)) (l records.Layer, err error) {
	l = records.Layer{ID: ulid.Make().String(), Driver: d.Kind(), Parent: parent}
	staged, final := filepath.Join(ls.TempDir(), l.ID), ls.LayerDir(l.ID)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Remove(staged), d.Remove(final))
		}
	}()
	if err := fill(staged); err != nil {
		return l, err
	}
	step("filled")
	if err := durable.SyncDir(staged); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := os.Rename(staged, final); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(final)); err != nil {
		return l, fmt.Errorf("place layer: %w", err)
	}
	step("placed")
	return l, nil
}

// NewRoot makes the layer of a new sprite: with overlay an empty one on the base, else a tree with the folders that a
// root needs, and with all that is in the image, unless that is "".
func (ls *Store) NewRoot(ctx context.Context, image string) (records.Layer, error) {
	d, err := ls.Driver()
	if err != nil {
		return records.Layer{}, err
	}
	if d.Stacks() {
		l, err := ls.takeEmpty(d, "")
		l.Image = image
		return l, err
	}
	l, err := ls.Build(d, "", func(dir string) error {
		uid, gid := ls.confiner.RootOwner()
		if err := d.Make(dir, uid, gid); err != nil {
			return err
		}
		if image != "" {
			if err := tree.Copy(ctx, ls.Images.Dir(image), layer.Data(dir)); err != nil {
				return err
			}
		}
		uid, gid = ls.confiner.Owner()
		return spec.Furnish(layer.Data(dir), uid, gid)
	})
	l.Image = image
	return l, err
}

// Bounds of layers that are copied rather than stacked upon where overlays cannot rename the folders of layers below them.
const (
	copiedEntries = 10_000
	copiedBytes   = 128 << 20
)

// ShouldStack reports whether a sprite goes on from a layer on top of it. Overlays of an ordinary user could then rename none of
// its folders, which programs seldom expect; so small layers are copied there, and the sprite's folders stay in the layer
// that it writes to.
func (ls *Store) ShouldStack(ctx context.Context, d layer.Driver, l records.Layer) (bool, error) {
	if !d.Stacks() || os.Getuid() == 0 {
		return d.Stacks(), nil
	}
	small, err := tree.Within(ctx, ls.DataDir(l), copiedEntries, copiedBytes)
	return !small, err
}

// Clone copies a layer as its driver does.
func (ls *Store) Clone(ctx context.Context, d layer.Driver, of records.Layer, dir string) error {
	if !of.Plain {
		return d.Clone(ctx, ls.LayerDir(of.ID), dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return tree.Copy(ctx, ls.DataDir(of), layer.Data(dir))
}

// Discard moves layers that nothing refers to any more to the trash. Layers that it cannot move are removed at the next start.
func (ls *Store) Discard(garbage ...records.Layer) {
	for _, l := range garbage {
		ls.digests.stopDigest(l.ID)
		dir := ls.LayerDir(l.ID)
		if l.Plain {
			dir = ls.DataDir(l)
		}
		if err := ls.Trash(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			ls.Config.Log.Warn().Err(err).Str("layer", l.ID).Msg("move layer to trash")
		}
	}
	ls.Step("trashed")
}

// Abandon discards layers whose commit failed, unless the commit happened after all.
func (ls *Store) Abandon(made ...records.Layer) {
	for _, l := range made {
		if _, err := ls.Store.Layer(l.ID); errors.Is(err, records.ErrNoLayer) {
			ls.Discard(l)
		}
	}
}

// WhyDegraded says why the files that end in a layer cannot be used, "" when they can.
func (ls *Store) WhyDegraded(id string) string {
	chain, err := ls.Store.Chain(id)
	if err != nil {
		return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
	}
	for _, l := range chain {
		if l.Damaged != "" {
			return fmt.Sprintf("its files are not what they were (%s); restore a checkpoint or delete the sprite", l.Damaged)
		}
		if _, err := os.Lstat(ls.DataDir(l)); err != nil {
			return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
		}
		if l.Driver == layer.Overlay && l.Image != "" && !pathExists(ls.Images.Dir(l.Image)) {
			return fmt.Sprintf("the image %s that it lies on is missing; import it again, or delete the sprite", l.Image)
		}
	}
	return ""
}

// shiftedIDs is the host's id for root of a sprite, when the host runs as root; see spec.LevelRoot.
const shiftedIDs = 100000

// OpenImages opens the images that sprites start from.
func (ls *Store) OpenImages() (err error) {
	ls.Images, err = image.Open(filepath.Join(ls.Config.Dir, "images"), image.Options{Now: ls.Now, Shift: func() int {
		if os.Getuid() == 0 {
			return shiftedIDs
		}
		return 0
	}})
	return err
}

// Describe says how a sprite's files are kept, nil when its layers are lost.
func (ls *Store) Describe(rec records.Sprite) *sprites.Storage {
	l, err := ls.Store.Layer(rec.Tree)
	if err != nil {
		return nil
	}
	out := &sprites.Storage{Driver: string(l.Driver), RenameDir: "ok"}
	if l.Driver == layer.Overlay && os.Getuid() != 0 && (l.Parent != "" || l.Image != "") {
		// The kernel keeps the notes that this needs in attributes which only root may write.
		out.RenameDir = "exdev"
	}
	return out
}

// AddImage adds the image of a sprite, if it has one, to the configuration of its box.
func (ls *Store) AddImage(rec records.Sprite, cfg *spec.Config) error {
	if rec.Image == "" {
		return nil
	}
	if err := ls.confiner.CheckImages(); err != nil {
		return err
	}
	img, err := ls.Images.Get(rec.Image)
	if errors.Is(err, image.ErrNotFound) {
		return wire.Degraded(fmt.Sprintf("the image %s is missing; import it again", rec.Image))
	}
	if err == nil {
		cfg.Env = img.Config.Env
		cfg.Passwd, cfg.Group, err = ls.Images.Users(rec.Image)
	}
	if err != nil {
		return fmt.Errorf("read image %s: %w", rec.Image, err)
	}
	return nil
}

// CheckpointMounts lists the checkpoints that the box of a sprite shows, the newest first, and their layers. Checkpoints that lost
// their files are left out.
func (ls *Store) CheckpointMounts(spriteID string) (points []spec.Point, chain []records.Layer, err error) {
	if ls.confiner.Confined().Plain {
		return nil, nil, nil // it has no mounts
	}
	all, err := ls.Store.Checkpoints(spriteID)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range slices.Backward(all) {
		if p.Auto || ls.WhyDegraded(p.Tree) != "" {
			continue
		}
		root, layers, err := ls.BoxRoot(p.Tree)
		if err != nil {
			return nil, nil, err
		}
		points, chain = append(points, spec.Point{ID: p.ID, Root: root}), append(chain, layers...)
		if len(points) == shownPoints {
			break
		}
	}
	return points, chain, nil
}

// shownPoints is how many checkpoints a box shows, the newest ones; those that the host made by itself are not among them.
const shownPoints = 5

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
	root.Lower = append(root.Lower, ls.baseDir())
	if top.Image != "" {
		root.Lower = append(root.Lower, ls.Images.Dir(top.Image))
	}
	if !top.Frozen {
		chain = append([]records.Layer{top}, chain...)
	}
	return root, chain, nil
}

// baseDir returns the lowest layer of every overlay.
func (ls *Store) baseDir() string { return filepath.Join(ls.Config.Dir, "base") }

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
	if pathExists(ls.baseDir()) { // of an earlier version, perhaps, which had fewer folders
		uid, gid := ls.confiner.Owner()
		return spec.Skeleton(ls.baseDir(), uid, gid)
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
		err = errors.Join(durable.SyncDir(staged), os.Rename(staged, ls.baseDir()), durable.SyncDir(ls.Config.Dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the base of sprites: %w", err), core.RemoveAll(staged))
	}
	return nil
}

// Pin marks the layers that a box is about to mount, so that they stay until unpin even when nothing else needs them.
func (ls *Store) Pin(chain []records.Layer) []string {
	var ids []string
	for _, l := range chain {
		ids = append(ids, l.ID)
	}
	ls.mounted.addPins(ids)
	return ids
}

func (ls *Store) Unpin(ids []string) {
	var unused []string
	for _, id := range ls.mounted.dropPins(ids) {
		if l, err := ls.Store.Layer(id); err == nil && l.Refs == 0 {
			unused = append(unused, id)
		}
	}
	if len(unused) == 0 {
		return
	}
	garbage, err := ls.Store.ForgetUnused(unused, ls.mounted.isPinned)
	if err != nil {
		ls.Config.Log.Warn().Err(err).Msg("forget layers that nothing needs")
	}
	ls.Discard(garbage...)
}

// IsMounted reports whether a running box has the layer mounted. Transactions that write may ask.
func (ls *Store) IsMounted(id string) bool { return ls.mounted.isPinned(id) }
