package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Values are sealed: a mark, the CRC-32C of their bucket's name, key and content, and the content. A seal is checked
// whenever a value is read, so that a damaged file gives an error and never another value. Programs need none, because
// their key is their digest; index and dedupe have none, because Check holds them against the entries. Values of schema 1
// have no seal.
//
//	mark u8 = 1, crc u32, content

const (
	sealMark = 0x01
	sealSize = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(bucket, key, content []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, content)
}

// seal puts a seal before content.
func seal(bucket, key, content []byte) []byte {
	return sealIn(bucket, key, append(make([]byte, sealSize, sealSize+len(content)), content...))
}

// sealIn writes the seal into the first sealSize bytes of value, whose content follows them.
func sealIn(bucket, key, value []byte) []byte {
	value[0] = sealMark
	binary.BigEndian.PutUint32(value[1:], sumOf(bucket, key, value[sealSize:]))
	return value
}

// unseal returns the content of a value, which belongs to the transaction. It fails with ErrDamaged.
func unseal(bucket, key, value []byte) ([]byte, error) {
	switch {
	case len(value) > 0 && value[0] == '{':
		return value, nil // of schema 1
	case len(value) < sealSize || value[0] != sealMark:
		return nil, fmt.Errorf("%w: %s %q has no seal", ErrDamaged, bucket, key)
	case binary.BigEndian.Uint32(value[1:]) != sumOf(bucket, key, value[sealSize:]):
		return nil, fmt.Errorf("%w: %s %q does not have its checksum", ErrDamaged, bucket, key)
	}
	return value[sealSize:], nil
}

// renewed returns a value as this version writes it; one that is so already stays as it is.
func renewed(bucket, key, value []byte) ([]byte, error) {
	switch {
	case bytes.Equal(bucket, bucketHeads):
		h, err := decodeHead(key, value)
		return h.encode(key), err
	case len(value) > 0 && value[0] == '{' && !bytes.Equal(bucket, bucketPrograms):
		return seal(bucket, key, value), nil
	}
	return value, nil
}
