package boltfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A sealed value is a mark, the CRC-32C of its bucket's name, its key and the content, and the content. Its checksum is
// verified whenever the value is read, so that a damaged file gives an error and never another value.
//
//	mark u8 = 1, crc u32, content

const (
	sealMark = 0x01
	// SealSize is the length of the seal before the content of a value.
	SealSize = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(bucket, key, content []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, content)
}

// Seal returns a value with the given content for a key of a bucket.
func Seal(bucket, key, content []byte) []byte {
	return SealIn(bucket, key, append(make([]byte, SealSize, SealSize+len(content)), content...))
}

// SealIn writes the seal into the first SealSize bytes of value, whose content follows them.
func SealIn(bucket, key, value []byte) []byte {
	value[0] = sealMark
	binary.BigEndian.PutUint32(value[1:], sumOf(bucket, key, value[SealSize:]))
	return value
}

// Unseal returns the content of a value, which belongs to the transaction. It fails with ErrDamaged.
func Unseal(bucket, key, value []byte) ([]byte, error) {
	switch {
	case len(value) < SealSize || value[0] != sealMark:
		return nil, fmt.Errorf("%w: %s %q has no checksum", ErrDamaged, bucket, key)
	case binary.BigEndian.Uint32(value[1:]) != sumOf(bucket, key, value[SealSize:]):
		return nil, fmt.Errorf("%w: %s %q does not have its checksum", ErrDamaged, bucket, key)
	}
	return value[SealSize:], nil
}
