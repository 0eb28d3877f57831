package runstate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// The digest of a state is the digest of its JSON, in which large values are replaced by digests of their own. The digests of
// values are memoized, and lists carry theirs: the cost of a digest is that of the change, whatever the size of the state. It
// depends on the content of the state alone. Facts of older versions have lattice.StateSum, a digest of the whole JSON.

// digestMark begins the digests that digester makes.
const digestMark = "2:"

// Digester makes digests of one run's states, one after the other. The zero value is ready.
type Digester struct {
	known map[valueID]digested // of the state before
	next  map[valueID]digested // of this one
	err   error
}

// valueID tells values in memory apart. JSON values are replaced, never changed, so that one that is the same is equal.
type valueID struct {
	kind reflect.Kind
	at   uintptr
	size int
}

// digested stands for a value. All objects of a state are digested, so that none is taken for it.
type digested struct {
	Sum   string `json:"$sum"`
	value any    // keeps the memory of its valueID
}

// Sum returns the digest of a state.
func (d *Digester) Sum(s State) (string, error) {
	d.next, d.err = make(map[valueID]digested, len(d.known)), nil
	s.In, s.Output = d.digestValue(s.In), d.digestValue(s.Output)
	s.Vars, s.Ctx = d.digestMembers(s.Vars), d.digestMembers(s.Ctx)
	s.Lane = d.digestLane(s.Lane)
	cache := make([]Cached, len(s.Cache))
	for i, c := range s.Cache {
		c.Value = d.digestValue(c.Value)
		cache[i] = c
	}
	s.Cache = cache
	raw, err := expr.Marshal(s)
	if d.err != nil {
		err = d.err
	}
	if err != nil {
		return "", fmt.Errorf("sum up the run's state: %w", err)
	}
	d.known, d.next = d.next, nil
	return digestMark + lattice.StateSum(raw), nil
}

// Verify reports whether sum is the digest of a state. want is the right one.
func (d *Digester) Verify(s State, sum string) (want string, ok bool, err error) {
	if strings.HasPrefix(sum, digestMark) {
		want, err = d.Sum(s)
		return want, want == sum, err
	}
	raw, err := s.Encode()
	want = lattice.StateSum(raw)
	return want, want == sum, err
}

func (d *Digester) digestLane(l Lane) Lane {
	l.Tmp, l.Err = d.digestMembers(l.Tmp), d.digestValue(l.Err)
	if l.Visit == nil || l.Visit.Map == nil {
		return l
	}
	visit, mp := *l.Visit, *l.Visit.Map
	l.Visit, visit.Map = &visit, &mp
	mp.Results, mp.Failures = listSum(mp.Results), listSum(mp.Failures)
	open := make([]*Iteration, len(mp.Open))
	for i, it := range mp.Open {
		copied := *it
		copied.Lane = d.digestLane(it.Lane)
		copied.Item, copied.Result = d.digestValue(it.Item), d.digestValue(it.Result)
		if f := it.Frame; f != nil {
			copied.Frame = &Frame{Vars: d.digestMembers(f.Vars), In: d.digestValue(f.In)}
		}
		open[i] = &copied
	}
	mp.Open = open
	return l
}

// listSum is a list of one value that stands for all of l.
func listSum(l List) List {
	if l.IsZero() {
		return l
	}
	sum := l.Sum()
	return List{tail: []any{l.Len(), hex.EncodeToString(sum[:])}}
}

func (d *Digester) digestMembers(o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	out := make(map[string]any, len(o))
	for name, v := range o {
		out[name] = d.digestValue(v)
	}
	return out
}

// maxPlain is the length up to which texts stand for themselves.
const maxPlain = 64

// digestValue returns v, or its digest if v may be large.
func (d *Digester) digestValue(v any) any {
	at := reflect.ValueOf(v)
	switch at.Kind() {
	case reflect.Map:
	case reflect.Slice:
		if at.Len() == 0 {
			return v
		}
	case reflect.String:
		if at.Len() <= maxPlain {
			return v
		}
	default:
		return v
	}
	id := valueID{at.Kind(), at.Pointer(), at.Len()}
	known, ok := d.next[id]
	if !ok {
		known, ok = d.known[id]
	}
	if !ok {
		raw, err := expr.Marshal(v)
		if err != nil {
			d.err = err
		}
		sum := sha256.Sum256(raw)
		known = digested{Sum: hex.EncodeToString(sum[:]), value: v}
	}
	d.next[id] = known
	return known
}
