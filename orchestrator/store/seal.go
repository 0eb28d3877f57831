package store

import (
	"bytes"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// Values are sealed (boltfile.Seal). Programs need no seal, because their key is their digest; index and dedupe have none,
// because Check holds them against the entries. Values of schema 1 have no seal.

// resealed returns a value as this version writes it; one that is so already stays as it is.
func resealed(bucket, key, value []byte) ([]byte, error) {
	switch {
	case bytes.Equal(bucket, bucketHeads):
		h, err := decodeHead(key, value)
		return h.encode(key), err
	case len(value) > 0 && value[0] == '{' && !bytes.Equal(bucket, bucketPrograms):
		return boltfile.Seal(bucket, key, value), nil
	}
	return value, nil
}
