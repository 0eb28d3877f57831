package records

import (
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	bolt "go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Sprite is the record of a sprite. Its tree is a folder of trees/.
type Sprite struct {
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	Tree         string              `json:"tree"`
	Source       string              `json:"source,omitempty"` // checkpoint that the tree descends from
	Labels       []string            `json:"labels,omitempty"`
	Environment  map[string]string   `json:"environment,omitempty"`
	Tools        []string            `json:"tools,omitempty"`       // host paths shown read-only, besides the host's own
	Skills       []string            `json:"skills,omitempty"`      // host folders that are in /skills, besides those of SkillsBase
	SkillsBase   string              `json:"skills_base,omitempty"` // in place of the host's Skills
	MinIsolation spec.Level          `json:"min_isolation,omitempty"`
	Image        string              `json:"image,omitempty"` // digest of the image that it started from
	URLSettings  sprites.URLSettings `json:"url_settings"`
	Config       *sprites.Config     `json:"config,omitempty"` // as asked for
	Runtime      string              `json:"runtime,omitempty"`
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	LastStarted  *time.Time          `json:"last_started,omitempty"` // when it last became running
	LastWarmed   *time.Time          `json:"last_warmed,omitempty"`
	Network      egress.Preset       `json:"network,omitempty"`   // in place of the host's preset
	HostPorts    []uint16            `json:"host_ports,omitzero"` // in place of the host's, when not nil
	Policy       *[]egress.Rule      `json:"policy,omitempty"`    // nil: the preset's
	Privileges   *Privileges         `json:"privileges,omitempty"`
	Resources    *Resources          `json:"resources,omitempty"`
	Checkpointed uint64              `json:"checkpointed"` // number of the last checkpoint, never used twice
}

func (s *Store) Sprite(name string) (rec Sprite, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		rec, err = getSprite(tx, name)
		return err
	})
	return rec, err
}

func getSprite(tx *bolt.Tx, name string) (Sprite, error) {
	return getRecord[Sprite](openTable(tx, bucketSprites), name, "sprite", ErrNoSprite)
}

func putSprite(tx *bolt.Tx, rec Sprite) error {
	return openTable(tx, bucketSprites).putJSON([]byte(rec.Name), rec)
}

// CreateSprite adds rec, which starts on the new layers made of which the last is its tree, unless its name is taken.
func (s *Store) CreateSprite(rec Sprite, made ...Layer) error {
	return s.update(func(tx *bolt.Tx) error { return addSprite(tx, rec, made...) })
}

func addSprite(tx *bolt.Tx, rec Sprite, made ...Layer) error {
	if tx.Bucket(bucketSprites).Get([]byte(rec.Name)) != nil {
		return ErrNameTaken
	}
	if _, err := tx.Bucket(bucketCheckpoints).CreateBucket([]byte(rec.ID)); err != nil {
		return err
	}
	for _, l := range made {
		if err := addLayer(tx, l); err != nil {
			return err
		}
	}
	if err := holdLayer(tx, rec.Tree); err != nil {
		return err
	}
	return putSprite(tx, rec)
}

// UpdateSprite changes the record of a sprite through fn and returns the result.
func (s *Store) UpdateSprite(name string, fn func(*Sprite)) (rec Sprite, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		if rec, err = getSprite(tx, name); err != nil {
			return err
		}
		fn(&rec)
		return putSprite(tx, rec)
	})
	return rec, err
}

// DeleteSprite forgets a sprite and its checkpoints and returns the layers that are garbage from then on.
func (s *Store) DeleteSprite(name string, mounted func(string) bool) (garbage []Layer, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, name)
		if err != nil {
			return err
		}
		trees := []string{rec.Tree}
		points, err := listCheckpoints(tx, rec.ID)
		if err != nil {
			return err
		}
		for _, p := range points {
			trees = append(trees, p.Tree)
		}
		if garbage, err = releaseLayers(tx, trees, mounted); err != nil {
			return err
		}
		if err := errors.Join(tx.Bucket(bucketCheckpoints).DeleteBucket([]byte(rec.ID)), forgetServices(tx, rec.ID)); err != nil {
			return err
		}
		return tx.Bucket(bucketSprites).Delete([]byte(name))
	})
	return garbage, err
}

// Sprites returns every sprite in the order of names.
func (s *Store) Sprites() (all []Sprite, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		all, err = listRecords[Sprite](openTable(tx, bucketSprites), "sprite")
		return err
	})
	return all, err
}

// spriteName matches the names of sprites, which are part of URLs.
var spriteName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

// ValidName reports whether a sprite may have the name.
func ValidName(name string) bool { return spriteName().MatchString(name) }
