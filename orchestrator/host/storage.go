package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/host/image"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// layerStore makes, finds and removes layers: the files of sprites and checkpoints.
type layerStore struct {
	*core
	confiner *confiner
	images   *image.Store
	driver   func() (layer.Driver, error) // of new sprites; chosen once
	spares   spares
	digests  *digests
	mounted  pins
}

func newLayerStore(c *core, confiner *confiner) *layerStore {
	ls := &layerStore{
		core: c, confiner: confiner, spares: spares{keep: keepSpares}, digests: newDigests(digestTurn, digestLimit),
		mounted: pins{boxes: map[string]int{}},
	}
	ls.driver = sync.OnceValues(ls.chooseDriver)
	return ls
}

// layerDir is the folder of a layer.
func (ls *layerStore) layerDir(id string) string { return filepath.Join(ls.cfg.Dir, "layers", id) }

// dataDir is the folder that holds the files of a layer.
func (ls *layerStore) dataDir(l layerRecord) string {
	if l.Plain {
		return filepath.Join(ls.cfg.Dir, "trees", l.ID)
	}
	return layer.Data(ls.layerDir(l.ID))
}

// treeDir is the files of a layer by its name alone. They are complete unless its driver is overlay.
func (ls *layerStore) treeDir(id string) string {
	if plain := filepath.Join(ls.cfg.Dir, "trees", id); exists(plain) {
		return plain
	}
	return layer.Data(ls.layerDir(id))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// build has fill make a layer in tmp/, then moves it to its place. The folders' names are durable after it; what is in
// them is not, see settle. Nothing stays behind after an error.
func (ls *layerStore) build(d layer.Driver, parent string, fill func(dir string) error) (layerRecord, error) {
	return ls.buildIn(d, parent, fill, ls.step)
}

func (ls *layerStore) buildIn(d layer.Driver, parent string, fill func(dir string) error, step func(string)) (l layerRecord, err error) {
	l = layerRecord{ID: ulid.Make().String(), Driver: d.Kind(), Parent: parent}
	staged, final := filepath.Join(ls.tmpDir(), l.ID), ls.layerDir(l.ID)
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

// newRoot makes the layer of a new sprite: with overlay an empty one on the base, else a tree with the folders that a
// root needs, and with all that is in the image, unless that is "".
func (ls *layerStore) newRoot(ctx context.Context, image string) (layerRecord, error) {
	d, err := ls.driver()
	if err != nil {
		return layerRecord{}, err
	}
	if d.Stacks() {
		l, err := ls.empty(d, "")
		l.Image = image
		return l, err
	}
	l, err := ls.build(d, "", func(dir string) error {
		uid, gid := ls.confiner.rootOwner()
		if err := d.Make(dir, uid, gid); err != nil {
			return err
		}
		if image != "" {
			if err := tree.Copy(ctx, ls.images.Dir(image), layer.Data(dir)); err != nil {
				return err
			}
		}
		uid, gid = ls.confiner.owner()
		return sandbox.Furnish(layer.Data(dir), uid, gid)
	})
	l.Image = image
	return l, err
}

// What is copied rather than stacked upon where overlays cannot rename the folders of layers below them.
const (
	copiedEntries = 10_000
	copiedBytes   = 128 << 20
)

// stacks reports whether a sprite goes on from a layer on top of it. Overlays of an ordinary user could then rename none of
// its folders, which programs seldom expect; so what is small is copied there, and the sprite's folders stay in the layer
// that it writes to.
func (ls *layerStore) stacks(ctx context.Context, d layer.Driver, l layerRecord) (bool, error) {
	if !d.Stacks() || os.Getuid() == 0 {
		return d.Stacks(), nil
	}
	small, err := tree.Within(ctx, ls.dataDir(l), copiedEntries, copiedBytes)
	return !small, err
}

// clone copies a layer as its driver does.
func (ls *layerStore) clone(ctx context.Context, d layer.Driver, of layerRecord, dir string) error {
	if !of.Plain {
		return d.Clone(ctx, ls.layerDir(of.ID), dir)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return tree.Copy(ctx, ls.dataDir(of), layer.Data(dir))
}

// discard moves layers that nothing refers to any more to the trash. What it cannot move now goes at the next start.
func (ls *layerStore) discard(garbage ...layerRecord) {
	for _, l := range garbage {
		ls.digests.stop(l.ID)
		dir := ls.layerDir(l.ID)
		if l.Plain {
			dir = ls.dataDir(l)
		}
		if err := ls.trash(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			ls.cfg.Log.Warn().Err(err).Str("layer", l.ID).Msg("move layer to trash")
		}
	}
	ls.step("trashed")
}

// abandon discards layers whose commit failed, unless the commit happened after all.
func (ls *layerStore) abandon(made ...layerRecord) {
	for _, l := range made {
		if _, err := ls.store.layer(l.ID); errors.Is(err, errNoLayer) {
			ls.discard(l)
		}
	}
}

// degraded says why the files that end in a layer cannot be used, "" when they can.
func (ls *layerStore) degraded(id string) string {
	chain, err := ls.store.chain(id)
	if err != nil {
		return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
	}
	for _, l := range chain {
		if l.Damaged != "" {
			return fmt.Sprintf("its files are not what they were (%s); restore a checkpoint or delete the sprite", l.Damaged)
		}
		if _, err := os.Lstat(ls.dataDir(l)); err != nil {
			return fmt.Sprintf("its files are missing (%v); restore a checkpoint or delete the sprite", err)
		}
		if l.Driver == layer.Overlay && l.Image != "" && !exists(ls.images.Dir(l.Image)) {
			return fmt.Sprintf("the image %s that it lies on is missing; import it again, or delete the sprite", l.Image)
		}
	}
	return ""
}

// shiftedIDs is the host's id for root of a sprite, when the host runs as root; see sandbox.LevelRoot.
const shiftedIDs = 100000

// openImages opens the images that sprites start from.
func (ls *layerStore) openImages() (err error) {
	ls.images, err = image.Open(filepath.Join(ls.cfg.Dir, "images"), image.Options{Now: ls.now, Shift: func() int {
		if os.Getuid() == 0 {
			return shiftedIDs
		}
		return 0
	}})
	return err
}

// storageOf says how a sprite's files are kept, nil when its layers are lost.
func (ls *layerStore) storageOf(rec spriteRecord) *sprites.Storage {
	l, err := ls.store.layer(rec.Tree)
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

// imageIn says how a box shows what a sprite started from; without an image that is nothing.
func (ls *layerStore) imageIn(rec spriteRecord, cfg *sandbox.Config) error {
	if rec.Image == "" {
		return nil
	}
	if err := ls.confiner.imagesWork(); err != nil {
		return err
	}
	img, err := ls.images.Get(rec.Image)
	if errors.Is(err, image.ErrNotFound) {
		return degradedError(fmt.Sprintf("the image %s is missing; import it again", rec.Image))
	}
	if err == nil {
		cfg.Env = img.Config.Env
		cfg.Passwd, cfg.Group, err = ls.images.Users(rec.Image)
	}
	if err != nil {
		return fmt.Errorf("read image %s: %w", rec.Image, err)
	}
	return nil
}

// pointView lists what the box of a sprite is to show, the newest first, and the layers that it mounts for that. What lost
// its files is left out.
func (ls *layerStore) pointView(spriteID string) (points []sandbox.Point, chain []layerRecord, err error) {
	if ls.confiner.confined().plain {
		return nil, nil, nil // it has no mounts
	}
	all, err := ls.store.checkpoints(spriteID)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range slices.Backward(all) {
		if p.Auto || ls.degraded(p.Tree) != "" {
			continue
		}
		root, layers, err := ls.root(p.Tree)
		if err != nil {
			return nil, nil, err
		}
		points, chain = append(points, sandbox.Point{ID: p.ID, Root: root}), append(chain, layers...)
		if len(points) == shownPoints {
			break
		}
	}
	return points, chain, nil
}

// shownPoints is how many checkpoints a box shows, the newest ones; those that the host made by itself are not among them.
const shownPoints = 5
