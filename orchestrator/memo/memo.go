// Package memo keeps results of pure functions, so that equal inputs are computed once. Start with [Memo]. It holds results in bounded
// memory, and never a failure; it must not be used where a result depends on anything but its input.
package memo

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// limit bounds the inputs whose results were used last, in bytes. As many older ones are kept until it is reached again.
const limit = 1 << 20

// Memo keeps the results for the inputs that were used last. Callers share a result, and never change it. The zero value is ready; it is
// safe for concurrent use.
type Memo[V any] struct {
	mu         sync.Mutex // guards all below
	young, old map[[sha256.Size]byte]V
	size       int // of the inputs of young, in bytes
}

// Do returns the result that is kept for an input, or that of compute. It keeps no failure. Callers that come at once may compute side
// by side.
func (m *Memo[V]) Do(compute func() (V, error), input ...[]byte) (V, error) {
	key, size := digestParts(input)
	m.mu.Lock()
	v, ok := m.young[key]
	if !ok {
		if v, ok = m.old[key]; ok {
			m.keepResult(key, v, size)
		}
	}
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := compute()
	if err != nil || size > limit {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.young[key]; ok {
		return first, nil
	}
	m.keepResult(key, v, size)
	return v, nil
}

// keepResult adds a result to young. It requires mu.
func (m *Memo[V]) keepResult(key [sha256.Size]byte, v V, size int) {
	if m.size += size; m.young == nil || m.size > limit {
		m.young, m.old, m.size = map[[sha256.Size]byte]V{}, m.young, size
	}
	m.young[key] = v
}

// digestParts returns a digest of the parts of an input, and their size.
func digestParts(parts [][]byte) (key [sha256.Size]byte, size int) {
	h := sha256.New()
	for _, part := range parts {
		size += len(part)
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	h.Sum(key[:0])
	return key, size
}
