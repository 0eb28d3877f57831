package runstate

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// List is a list of JSON values that only grows, such as the results of a MAP. Append leaves the list that it grew from as
// it was and copies a bounded part of it, and the list knows its own digest: a state that holds a long one is copied and
// summed up as fast as one that holds a short one. The zero value is empty.
type List struct {
	full [][]any // of listChunk values each; shared and never changed
	tail []any   // fewer than listChunk; copied when it grows
	sum  [sha256.Size]byte
}

const listChunk = 64

// ListOf is a list of these values.
func ListOf(values ...any) (List, error) {
	var l List
	for _, v := range values {
		var err error
		if l, err = l.Append(v); err != nil {
			return List{}, err
		}
	}
	return l, nil
}

// Append returns the list with v behind it. It fails when v is not JSON.
func (l List) Append(v any) (List, error) {
	raw, err := expr.Marshal(v)
	if err != nil {
		return l, fmt.Errorf("encode a value of a list: %w", err)
	}
	sum := sha256.New()
	sum.Write(l.sum[:])
	sum.Write(raw)
	sum.Sum(l.sum[:0])
	tail := make([]any, len(l.tail)+1)
	copy(tail, l.tail)
	tail[len(l.tail)] = v
	l.tail = tail
	if len(tail) == listChunk {
		full := make([][]any, len(l.full)+1)
		copy(full, l.full)
		full[len(l.full)] = tail
		l.full, l.tail = full, nil
	}
	return l, nil
}

// Len is how many values there are.
func (l List) Len() int { return len(l.full)*listChunk + len(l.tail) }

// At is the value at an index, which must be within the list.
func (l List) At(i int) any {
	if chunk := i / listChunk; chunk < len(l.full) {
		return l.full[chunk][i%listChunk]
	}
	return l.tail[i-len(l.full)*listChunk]
}

// All is a new slice of all values, not nil.
func (l List) All() []any {
	all := make([]any, 0, l.Len())
	for _, chunk := range l.full {
		all = append(all, chunk...)
	}
	return append(all, l.tail...)
}

// Sum is the digest of all values. Equal lists have equal sums.
func (l List) Sum() [sha256.Size]byte { return l.sum }

// IsZero reports whether the list is empty, for omitzero.
func (l List) IsZero() bool { return l.Len() == 0 }

// MarshalJSON writes an array.
func (l List) MarshalJSON() ([]byte, error) { return expr.Marshal(l.All()) }

// UnmarshalJSON reads an array.
func (l *List) UnmarshalJSON(raw []byte) error {
	v, err := expr.Decode(raw)
	if err != nil {
		return err
	}
	values, ok := v.([]any)
	if !ok && v != nil {
		return fmt.Errorf("decode a list: %s is not an array", raw)
	}
	*l, err = ListOf(values...)
	return err
}

var (
	_ json.Marshaler   = List{}
	_ json.Unmarshaler = &List{}
)
