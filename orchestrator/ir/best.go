package ir

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// chooseBest chooses one element of the inputs, which are arrays of objects: the one that comes first when all are ordered by
// the members that By names, the first of them counting most. Less comes first, with "-" in front of the name more.
// Numbers, texts and booleans (false first) are ordered; an element whose member is missing, null or of another kind comes
// behind those that have one. Of equals the earlier one is chosen. Elements that are null, such as the results of failed
// iterations, are left out; when none is left it is invariant_failure.
func (n *Node) chooseBest(inputs []any) (any, *expr.Failure) {
	var chosen map[string]any
	for i, input := range inputs {
		list, ok := input.([]any)
		if !ok {
			return nil, n.inputTypeFailure(i, "an array", input)
		}
		for j, element := range list {
			object, ok := element.(map[string]any)
			switch {
			case element == nil:
			case !ok:
				return nil, expr.Failf(expr.FailStateType, "best needs objects; element %d of input %d is %s", j, i, expr.TypeName(element))
			case chosen == nil || n.sortsBefore(object, chosen):
				chosen = object
			}
		}
	}
	if chosen == nil {
		return nil, expr.Failf(expr.FailInvariant, "there is nothing to choose the best of")
	}
	return chosen, nil
}

// sortsBefore reports whether a is better than b.
func (n *Node) sortsBefore(a, b map[string]any) bool {
	for _, name := range n.By {
		path, falling := strings.CutPrefix(name, "-")
		x, y := rankOf(a, path), rankOf(b, path)
		switch c := x.compareRank(y); {
		case c == 0:
		case x.kind == y.kind && falling:
			return c > 0
		default:
			return c < 0
		}
	}
	return false
}

// rank is a value in its order: booleans, numbers, texts, then all that has none.
type rank struct {
	kind   int
	flag   int
	number expr.Decimal
	text   string
}

func rankOf(object map[string]any, path string) rank {
	var v any = object
	for name := range strings.SplitSeq(path, ".") {
		o, ok := v.(map[string]any)
		if !ok {
			return rank{kind: 3}
		}
		v = o[name]
	}
	switch v := v.(type) {
	case bool:
		r := rank{kind: 0}
		if v {
			r.flag = 1
		}
		return r
	case json.Number:
		if d, ok := expr.ParseDecimal(v); ok {
			return rank{kind: 1, number: d}
		}
	case string:
		return rank{kind: 2, text: v}
	}
	return rank{kind: 3}
}

func (r rank) compareRank(o rank) int {
	if r.kind == 1 && o.kind == 1 {
		return r.number.CompareTo(o.number)
	}
	return cmp.Or(cmp.Compare(r.kind, o.kind), cmp.Compare(r.flag, o.flag), cmp.Compare(r.text, o.text))
}
