package records

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// bucketURLs holds the values that must outlive the host: "port", which was listened on, and "key", with which tokens are signed.
var bucketURLs = []byte("urls")

// URLState returns the port that URLs had last, 0 when they had none, and the key of tokens, made with the first call. A damaged
// value counts as missing: URLs then get another port, or their tokens become invalid.
func (s *Store) URLState() (port int, key []byte, err error) {
	err = s.update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(bucketURLs); err != nil {
			return err
		}
		b := openTable(tx, bucketURLs)
		if text, err := b.Get([]byte("port")); err == nil {
			port, _ = strconv.Atoi(string(text))
		}
		kept, err := b.Get([]byte("key"))
		if key = append(key, kept...); err == nil && len(key) == urlKeySize {
			return nil
		}
		key = newURLKey()
		return b.Put([]byte("key"), key)
	})
	return port, key, err
}

func (s *Store) SaveURLPort(port int) error {
	return s.update(func(tx *bolt.Tx) error {
		return openTable(tx, bucketURLs).Put([]byte("port"), []byte(strconv.Itoa(port)))
	})
}

func (s *Store) SetAddress(name string, addr netip.Addr) error {
	return s.update(func(tx *bolt.Tx) error {
		return openTable(tx, bucketURLs).Put([]byte(addressKey+name), []byte(addr.String()))
	})
}

// Addresses reads the addresses of the sprites that there are, and removes the others and damaged ones.
func (s *Store) Addresses() (map[string]netip.Addr, error) {
	exist, kept := map[string]bool{}, map[string]netip.Addr{}
	all, err := s.Sprites()
	if err != nil {
		return nil, err
	}
	for _, rec := range all {
		exist[rec.Name] = true
	}
	err = s.update(func(tx *bolt.Tx) error {
		var gone [][]byte
		b := openTable(tx, bucketURLs)
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			name, ok := strings.CutPrefix(string(k), addressKey)
			if !ok {
				continue
			}
			text, err := b.open(k, v)
			if addr, parseErr := netip.ParseAddr(string(text)); exist[name] && errors.Join(err, parseErr) == nil {
				kept[name] = addr
			} else {
				gone = append(gone, k)
			}
		}
		for _, k := range gone {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	return kept, err
}

func newURLKey() []byte {
	key := make([]byte, urlKeySize)
	rand.Read(key)
	return key
}

const (
	addressKey = "address/"
	urlKeySize = 32
)
