package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// spriteRecord is what host.db knows of a sprite. Its tree is a folder of trees/.
type spriteRecord struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Tree         string            `json:"tree"`
	Source       string            `json:"source,omitempty"` // checkpoint that the tree descends from
	Labels       []string          `json:"labels,omitempty"`
	Environment  map[string]string `json:"environment,omitempty"`
	Tools        []string          `json:"tools,omitempty"` // host paths shown read-only, besides the host's own
	URLSettings  urlSettings       `json:"url_settings"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	LastStarted  *time.Time        `json:"last_started,omitempty"`
	Checkpointed uint64            `json:"checkpointed"` // number of the last checkpoint, never used twice
}

// checkpointRecord is what host.db knows of a checkpoint.
type checkpointRecord struct {
	ID         string    `json:"id"` // "v3", or "auto-4" for one that the host made before a restore
	Tree       string    `json:"tree"`
	Source     string    `json:"source,omitempty"`
	Comment    string    `json:"comment,omitempty"`
	Auto       bool      `json:"auto,omitempty"`
	Durable    bool      `json:"durable"`
	CreateTime time.Time `json:"create_time"`
}

var (
	errNoSprite     = errors.New("sprite not found")
	errNoCheckpoint = errors.New("checkpoint not found")
	errNameTaken    = errors.New("a sprite of this name exists already")
)

// Buckets: sprites holds name → spriteRecord; checkpoints holds one bucket per sprite id: number (8 bytes, big endian)
// → checkpointRecord.
var (
	bucketSprites     = []byte("sprites")
	bucketCheckpoints = []byte("checkpoints")
)

// lockTimeout is how long opening waits for another process to let go of the file.
const lockTimeout = time.Second

// store is host.db, the single source of truth. After a commit that failed the file is closed and opened again, because
// the handle's view of the file is then unknown.
type store struct {
	path string

	mu sync.RWMutex // guards db: held for reading during transactions, for writing while it is replaced
	db *bolt.DB     // nil after a failed reopening and after close
}

func openStore(dir string) (*store, error) {
	s := &store{path: filepath.Join(dir, "host.db")}
	if err := s.open(); err != nil {
		return nil, err
	}
	err := s.update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketSprites, bucketCheckpoints} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", s.path, err), s.close())
	}
	return s, nil
}

func (s *store) open() error {
	db, err := bolt.Open(s.path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("open %s: another process serves this directory; end it or choose another one", s.path)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.db = db
	return nil
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

var errClosed = errors.New("the host's database is closed")

func (s *store) view(fn func(*bolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return errClosed
	}
	return s.db.View(fn)
}

// update runs fn in one durable transaction.
func (s *store) update(fn func(*bolt.Tx) error) error {
	s.mu.RLock()
	if s.db == nil {
		s.mu.RUnlock()
		return errClosed
	}
	var refused error
	err := s.db.Update(func(tx *bolt.Tx) error {
		refused = fn(tx)
		return refused
	})
	s.mu.RUnlock()
	if err == nil || err == refused {
		return err
	}
	return errors.Join(fmt.Errorf("commit: %w", err), s.reopen())
}

func (s *store) reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		// What close says of a handle that is given up changes nothing.
		_ = s.db.Close()
		s.db = nil
	}
	return s.open()
}

func (s *store) sprite(name string) (rec spriteRecord, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		rec, err = getSprite(tx, name)
		return err
	})
	return rec, err
}

func getSprite(tx *bolt.Tx, name string) (rec spriteRecord, err error) {
	data := tx.Bucket(bucketSprites).Get([]byte(name))
	if data == nil {
		return rec, errNoSprite
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("record of sprite %s: %w", name, err)
	}
	return rec, nil
}

func putSprite(tx *bolt.Tx, rec spriteRecord) error {
	return putJSON(tx.Bucket(bucketSprites), []byte(rec.Name), rec)
}

func putJSON(b *bolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// createSprite adds rec unless its name is taken.
func (s *store) createSprite(rec spriteRecord) error {
	return s.update(func(tx *bolt.Tx) error {
		if tx.Bucket(bucketSprites).Get([]byte(rec.Name)) != nil {
			return errNameTaken
		}
		if _, err := tx.Bucket(bucketCheckpoints).CreateBucket([]byte(rec.ID)); err != nil {
			return err
		}
		return putSprite(tx, rec)
	})
}

// updateSprite changes the record of a sprite through fn and returns the result.
func (s *store) updateSprite(name string, fn func(*spriteRecord)) (rec spriteRecord, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		if rec, err = getSprite(tx, name); err != nil {
			return err
		}
		fn(&rec)
		return putSprite(tx, rec)
	})
	return rec, err
}

// deleteSprite forgets a sprite and its checkpoints and returns their trees, which are garbage from then on.
func (s *store) deleteSprite(name string) (trees []string, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		trees = []string{rec.Tree}
		points, err := listCheckpoints(tx, rec.ID)
		if err != nil {
			return err
		}
		for _, p := range points {
			trees = append(trees, p.Tree)
		}
		if err := tx.Bucket(bucketCheckpoints).DeleteBucket([]byte(rec.ID)); err != nil {
			return err
		}
		return tx.Bucket(bucketSprites).Delete([]byte(name))
	})
	return trees, err
}

// sprites calls fn for every sprite in the order of names, from the first one after `after`, until fn returns false.
func (s *store) sprites(after string, fn func(spriteRecord) bool) error {
	return s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSprites).Cursor()
		for k, v := c.Seek([]byte(after)); k != nil; k, v = c.Next() {
			if string(k) == after {
				continue
			}
			var rec spriteRecord
			if err := json.Unmarshal(v, &rec); err != nil {
				return fmt.Errorf("record of sprite %s: %w", k, err)
			}
			if !fn(rec) {
				return nil
			}
		}
		return nil
	})
}

// checkpoints returns the checkpoints of a sprite in the order of their making.
func (s *store) checkpoints(spriteID string) (points []checkpointRecord, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		points, err = listCheckpoints(tx, spriteID)
		return err
	})
	return points, err
}

func listCheckpoints(tx *bolt.Tx, spriteID string) ([]checkpointRecord, error) {
	b := tx.Bucket(bucketCheckpoints).Bucket([]byte(spriteID))
	if b == nil {
		return nil, errNoSprite
	}
	var points []checkpointRecord
	err := b.ForEach(func(_, v []byte) error {
		var p checkpointRecord
		if err := json.Unmarshal(v, &p); err != nil {
			return fmt.Errorf("record of a checkpoint: %w", err)
		}
		points = append(points, p)
		return nil
	})
	return points, err
}

func (s *store) checkpoint(spriteID, id string) (checkpointRecord, error) {
	points, err := s.checkpoints(spriteID)
	if err != nil {
		return checkpointRecord{}, err
	}
	for _, p := range points {
		if p.ID == id {
			return p, nil
		}
	}
	return checkpointRecord{}, errNoCheckpoint
}

// addCheckpoint gives p the sprite's next number and stores it. The sprite's own state descends from p from then on.
func (s *store) addCheckpoint(name string, p checkpointRecord) (checkpointRecord, error) {
	err := s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		p.Source = rec.Source
		if p, err = putCheckpoint(tx, &rec, p); err != nil {
			return err
		}
		rec.Source = p.ID
		return putSprite(tx, rec)
	})
	return p, err
}

func putCheckpoint(tx *bolt.Tx, rec *spriteRecord, p checkpointRecord) (checkpointRecord, error) {
	rec.Checkpointed++
	p.ID = fmt.Sprintf("v%d", rec.Checkpointed)
	if p.Auto {
		p.ID = fmt.Sprintf("auto-%d", rec.Checkpointed)
	}
	return p, putJSON(tx.Bucket(bucketCheckpoints).Bucket([]byte(rec.ID)), number(rec.Checkpointed), p)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// restored makes tree the sprite's state, which then descends from checkpoint source. The state before stays as an
// automatic checkpoint, unless its files are lost; of the automatic ones only the newest `keep` stay, and the trees
// of the others are returned as garbage.
func (s *store) restored(name, tree, source string, lost bool, now time.Time, keep int) (garbage []string, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		garbage = nil
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		if !lost {
			auto := checkpointRecord{
				Tree: rec.Tree, Source: rec.Source, Auto: true, Durable: true, CreateTime: now,
				Comment: "state before the restore of " + source,
			}
			if _, err := putCheckpoint(tx, &rec, auto); err != nil {
				return err
			}
		}
		rec.Tree, rec.Source, rec.UpdatedAt = tree, source, now
		if garbage, err = pruneAutos(tx, rec.ID, keep); err != nil {
			return err
		}
		return putSprite(tx, rec)
	})
	return garbage, err
}

func pruneAutos(tx *bolt.Tx, spriteID string, keep int) (garbage []string, err error) {
	b := tx.Bucket(bucketCheckpoints).Bucket([]byte(spriteID))
	c := b.Cursor()
	var old [][]byte
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		var p checkpointRecord
		if err := json.Unmarshal(v, &p); err != nil {
			return nil, fmt.Errorf("record of a checkpoint: %w", err)
		}
		if !p.Auto {
			continue
		}
		if keep > 0 {
			keep--
			continue
		}
		old, garbage = append(old, k), append(garbage, p.Tree)
	}
	for _, k := range old {
		if err := b.Delete(k); err != nil {
			return nil, err
		}
	}
	return garbage, nil
}

// deleteCheckpoint forgets one checkpoint and returns its tree, which is garbage from then on.
func (s *store) deleteCheckpoint(spriteID, id string) (tree string, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketCheckpoints).Bucket([]byte(spriteID))
		if b == nil {
			return errNoSprite
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var p checkpointRecord
			if err := json.Unmarshal(v, &p); err != nil {
				return fmt.Errorf("record of a checkpoint: %w", err)
			}
			if p.ID == id {
				tree = p.Tree
				return b.Delete(k)
			}
		}
		return errNoCheckpoint
	})
	return tree, err
}

// referenced returns every tree that a record refers to.
func (s *store) referenced() (trees map[string]bool, ids map[string]bool, err error) {
	trees, ids = map[string]bool{}, map[string]bool{}
	err = s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSprites).ForEach(func(k, v []byte) error {
			var rec spriteRecord
			if err := json.Unmarshal(v, &rec); err != nil {
				return fmt.Errorf("record of sprite %s: %w", k, err)
			}
			trees[rec.Tree], ids[rec.ID] = true, true
			points, err := listCheckpoints(tx, rec.ID)
			for _, p := range points {
				trees[p.Tree] = true
			}
			return err
		})
	})
	return trees, ids, err
}
