package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Repair tells how a damaged host.db was repaired.
type Repair struct {
	Path        string   `json:"path"`
	Aside       string   `json:"aside,omitempty"` // where the damaged file is now, with the layers that no record leads to; "": there was no damage
	Sprites     []string `json:"sprites"`         // that are there
	Degraded    []string `json:"degraded"`        // of these, those whose present files are lost: a checkpoint can be restored
	Lost        []string `json:"lost"`            // sprites by name, or by id where the name is lost
	Checkpoints []string `json:"checkpoints"`     // "NAME ID" of the lost ones of sprites that are there
	Incomplete  bool     `json:"incomplete"`      // whole pages cannot be read: more may be lost than is named
	Problems    []string `json:"problems"`        // that the damaged file had
}

// RepairDir puts a new host.db in the place of a damaged one, in a directory that no host serves. The new file has the records
// that carry their checksums and whose layers all have records, and no others: nothing is guessed. The damaged file and the
// layers that no record leads to are moved aside, because a host removes layers that it does not know.
func RepairDir(dir string, now time.Time) (Repair, error) {
	out := Repair{Path: filepath.Join(dir, "host.db"), Sprites: []string{}, Degraded: []string{}, Lost: []string{}, Checkpoints: []string{}, Problems: []string{}}
	f, err := os.Open(out.Path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil { // no host opens it meanwhile
		return out, ErrServed
	}
	a, err := AuditDir(dir)
	switch {
	case errors.Is(err, ErrDamaged):
		a.Problems = append(a.Problems, err.Error())
	case err != nil:
		return out, err
	}
	out.Problems = append(out.Problems, a.Problems...)
	found, err := readRecords(f)
	if err != nil {
		return out, fmt.Errorf("read %s: %w", out.Path, err)
	}
	if len(out.Problems) > 0 {
		out.Incomplete = found.incomplete
		out.Aside = filepath.Join(dir, "damaged-"+now.UTC().Format("20060102T150405.000"))
		found.dropUnfit(&out)
	}
	out.Sprites = append(out.Sprites, slices.Sorted(maps.Keys(found.sprites))...)
	if out.Aside == "" {
		return out, nil
	}
	fresh := out.Path + ".new"
	if err := found.writeFile(fresh); err != nil {
		return out, errors.Join(fmt.Errorf("write %s: %w", fresh, err), os.RemoveAll(fresh))
	}
	return out, found.replaceFile(out.Path, fresh, out.Aside)
}

// found are the sound records of a file that may be damaged.
type found struct {
	sprites     map[string]Sprite // by name
	layers      map[string]Layer  // by id
	checkpoints map[string]map[string]Checkpoint
	names       []string // of sprites whose records are damaged
	values      map[string]map[string][]byte
	incomplete  bool
}

// readRecords reads the records that can be read.
func readRecords(f *os.File) (*found, error) {
	r := &found{sprites: map[string]Sprite{}, layers: map[string]Layer{}, checkpoints: map[string]map[string]Checkpoint{}, values: map[string]map[string][]byte{}}
	return r, boltfile.Salvage(f, boltfile.Nested, func(buckets []string, key, value []byte) {
		r.takeValue(strings.Join(buckets, "/"), string(key), value)
	}, func(string, ...any) { r.incomplete = true }) // an audit has reported it
}

// takeValue takes a value of a table, or a table that lies in another one.
func (r *found) takeValue(place, key string, value []byte) {
	table, id, _ := strings.Cut(place, "/")
	if value == nil {
		if table == string(bucketCheckpoints) {
			r.checkpoints[key] = map[string]Checkpoint{}
		}
		return
	}
	content, err := boltfile.Unseal([]byte(place), []byte(key), value)
	switch table {
	case string(bucketSprites):
		var rec Sprite
		if err != nil || json.Unmarshal(content, &rec) != nil || rec.Name != key {
			r.names = append(r.names, key)
			return
		}
		r.sprites[key] = rec
	case string(bucketLayers):
		var l Layer
		if err == nil && json.Unmarshal(content, &l) == nil && l.ID == key {
			r.layers[key] = l
		}
		return // written again
	case string(bucketCheckpoints):
		var p Checkpoint
		if err == nil && json.Unmarshal(content, &p) == nil && r.checkpoints[id] != nil {
			r.checkpoints[id][key] = p
		} else {
			err = errors.Join(err, ErrDamaged)
		}
	}
	if err != nil {
		return
	}
	if r.values[place] == nil {
		r.values[place] = map[string][]byte{}
	}
	r.values[place][key] = value
}

// dropUnfit leaves out the records that do not fit together, and names them.
func (r *found) dropUnfit(out *Repair) {
	for again := true; again; {
		again = false
		for id, l := range r.layers {
			if _, ok := r.layers[l.Merged]; l.Merged != "" && !ok {
				l.Merged = "" // it shows the same without
				r.layers[id] = l
			}
			if _, ok := r.layers[l.Parent]; l.Parent != "" && !ok {
				delete(r.layers, id)
				again = true
			}
		}
	}
	ids := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.sprites)) {
		rec := r.sprites[name]
		ids[rec.ID] = true
		points := r.checkpoints[rec.ID]
		for key, p := range points {
			if _, ok := r.layers[p.Tree]; !ok {
				delete(points, key)
				delete(r.values[string(bucketCheckpoints)+"/"+rec.ID], key)
				out.Checkpoints = append(out.Checkpoints, name+" "+p.ID)
			}
		}
		_, whole := r.layers[rec.Tree]
		switch {
		case !whole && len(points) == 0:
			delete(r.sprites, name)
			delete(r.values[string(bucketSprites)], name)
			r.names = append(r.names, name)
		case !whole:
			out.Degraded = append(out.Degraded, name)
			r.layers[rec.Tree] = Layer{ID: rec.Tree, Driver: layer.CAS, Plain: true, Durable: true} // a folder that is missing
		}
	}
	nameless := slices.DeleteFunc(slices.Sorted(maps.Keys(r.checkpoints)), func(id string) bool { return ids[id] })
	out.Lost = append(out.Lost, r.names...)
	if len(nameless) > len(r.names) { // else they are those of the names
		out.Lost = append(out.Lost, nameless...)
	}
	slices.Sort(out.Checkpoints)
	r.keepUsed()
}

// keepUsed leaves out the layers that no sprite and no checkpoint leads to.
func (r *found) keepUsed() {
	used := map[string]Layer{}
	var walk func(id string)
	walk = func(id string) {
		l, ok := r.layers[id]
		if _, seen := used[id]; seen || !ok {
			return
		}
		used[id] = l
		for _, below := range l.layersBelow() {
			walk(below)
		}
	}
	for _, rec := range r.sprites {
		walk(rec.Tree)
		for _, p := range r.checkpoints[rec.ID] {
			walk(p.Tree)
		}
	}
	r.layers = used
}

// writeFile makes a host.db with the records.
func (r *found) writeFile(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	db, err := boltfile.Open(path, boltfile.Options{Layout: boltfile.Nested, Create: true})
	if err != nil {
		return err
	}
	err = boltfile.Update(db, func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketSprites, bucketCheckpoints, bucketLayers, bucketMeta} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		known := map[string]bool{}
		for _, rec := range r.sprites {
			known[rec.ID] = true
			if _, err := tx.Bucket(bucketCheckpoints).CreateBucketIfNotExists([]byte(rec.ID)); err != nil {
				return err
			}
		}
		for place, values := range r.values {
			name, id, nested := strings.Cut(place, "/")
			if nested && !known[id] {
				continue
			}
			b, err := tx.CreateBucketIfNotExists([]byte(name))
			if err == nil && nested {
				b, err = b.CreateBucketIfNotExists([]byte(id))
			}
			if err != nil {
				return err
			}
			for key, value := range values {
				if err := b.Put([]byte(key), value); err != nil {
					return err
				}
			}
		}
		for _, l := range r.layers {
			if err := putLayer(tx, l); err != nil {
				return err
			}
		}
		return openTable(tx, bucketMeta).Put(keySealed, []byte("1"))
	})
	return errors.Join(err, db.Close())
}

// replaceFile moves the damaged file and unknown layers aside, and the new file in its place. Cut off, it can be done again.
func (r *found) replaceFile(path, fresh, aside string) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	for _, folder := range []string{"layers", "trees"} {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if l, known := r.layers[e.Name()]; known && l.Plain == (folder == "trees") {
				continue
			}
			to := filepath.Join(aside, folder)
			if err := errors.Join(os.MkdirAll(to, 0o700), os.Rename(filepath.Join(dir, folder, e.Name()), filepath.Join(to, e.Name()))); err != nil {
				return err
			}
		}
	}
	if err := os.Link(path, filepath.Join(aside, filepath.Base(path))); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(aside), durable.SyncDir(dir))
}
