package records

import (
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Service is the record of a service. Services belong to a sprite and not to its files: a restore leaves their
// definitions alone.
type Service struct {
	Name     string            `json:"name"`
	Cmd      string            `json:"cmd"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"`
	Needs    []string          `json:"needs"`
	HTTPPort int               `json:"http_port,omitempty"`
	Stopped  bool              `json:"stopped,omitempty"` // by request, which holds until a request to start
}

// Equal reports whether a process of one is as good as a process of the other.
func (s Service) Equal(o Service) bool {
	return s.Cmd == o.Cmd && s.Dir == o.Dir && slices.Equal(s.Args, o.Args) && maps.Equal(s.Env, o.Env)
}

// bucketServices holds one bucket per sprite id: name → [Service].
var bucketServices = []byte("services")

// Services returns a sprite's services by name.
func (s *Store) Services(sprite string) (all map[string]Service, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		all, err = getServices(tx, sprite)
		return err
	})
	return all, err
}

func getServices(tx *bolt.Tx, sprite string) (map[string]Service, error) {
	all := map[string]Service{}
	b := openTable(tx, bucketServices, sprite)
	if b.Bucket == nil {
		return all, nil
	}
	list, err := listRecords[Service](b, "service")
	for _, s := range list {
		all[s.Name] = s
	}
	return all, err
}

// ChangeServices lets fn change a sprite's services, and returns them as they are then. It fails when the sprite is gone.
func (s *Store) ChangeServices(sprite, id string, fn func(all map[string]Service) error) (all map[string]Service, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		rec, err := getSprite(tx, sprite)
		if err != nil {
			return err
		}
		if rec.ID != id {
			return ErrNoSprite
		}
		if all, err = getServices(tx, id); err != nil {
			return err
		}
		before := maps.Clone(all)
		if err := fn(all); err != nil {
			return err
		}
		return putServices(tx, id, before, all)
	})
	return all, err
}

func putServices(tx *bolt.Tx, id string, before, after map[string]Service) error {
	root, err := tx.CreateBucketIfNotExists(bucketServices)
	if err != nil {
		return err
	}
	if _, err := root.CreateBucketIfNotExists([]byte(id)); err != nil {
		return err
	}
	b := openTable(tx, bucketServices, id)
	for name := range before {
		if _, ok := after[name]; !ok {
			if err := b.Delete([]byte(name)); err != nil {
				return err
			}
		}
	}
	for name, s := range after {
		if err := b.putJSON([]byte(name), s); err != nil {
			return err
		}
	}
	return nil
}

// forgetServices removes the services of a sprite that is deleted.
func forgetServices(tx *bolt.Tx, id string) error {
	if root := tx.Bucket(bucketServices); root != nil && root.Bucket([]byte(id)) != nil {
		return root.DeleteBucket([]byte(id))
	}
	return nil
}

// copyServices gives one sprite the services of another. They start with its first command.
func copyServices(tx *bolt.Tx, from, to string) error {
	all, err := getServices(tx, from)
	if err != nil || len(all) == 0 {
		return err
	}
	return putServices(tx, to, nil, all)
}
