package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Merge joins inputs, the values of From, in their order:
//
//	shallow      objects, member by member
//	deep         objects; members that are objects on both sides are merged in the same way
//	concat       arrays, one behind the other
//	by_key       arrays of objects: elements that are equal in the member Key become one, merged as by shallow, at the
//	             place of the first; keys are strings, numbers (1 is 1.0) or booleans
//	best         arrays of objects, of which one is chosen; see best
//	merge_patch  RFC 7396: each input patches the result so far; only here null deletes
//
// A conflict is a member with different values on both sides; OnConflict says whether the last or the first stands, or
// that the node fails with invariant_failure. An input of the wrong type is state_type_error. Inputs are not changed;
// the result may share structure with them.
func (n *Node) Merge(inputs []any) (any, *expr.Failure) {
	switch n.Strategy {
	case MergeShallow, MergeDeep:
		return n.mergeObjects(inputs)
	case MergeConcat:
		out := []any{}
		for i, input := range inputs {
			list, ok := input.([]any)
			if !ok {
				return nil, n.inputTypeFailure(i, "an array", input)
			}
			out = append(out, list...)
		}
		return out, nil
	case MergeByKey:
		return n.mergeByKey(inputs)
	case MergeBest:
		return n.chooseBest(inputs)
	case MergePatch:
		var out any
		for i, input := range inputs {
			if i == 0 {
				out = input
				continue
			}
			out = mergePatch(out, input)
		}
		return out, nil
	}
	return nil, expr.Failf(expr.FailSchema, "there is no strategy %q", n.Strategy)
}

func (n *Node) inputTypeFailure(i int, want string, got any) *expr.Failure {
	return expr.Failf(expr.FailStateType, "%s needs %s from input %d but found %s", n.Strategy, want, i, expr.TypeName(got))
}

func (n *Node) mergeObjects(inputs []any) (any, *expr.Failure) {
	out := map[string]any{}
	for i, input := range inputs {
		object, ok := input.(map[string]any)
		if !ok {
			return nil, n.inputTypeFailure(i, "an object", input)
		}
		if f := n.mergeInto(out, object, n.Strategy == MergeDeep, ""); f != nil {
			return nil, f
		}
	}
	return out, nil
}

// mergeInto merges from into out. out itself is not shared, but its nested values may be: they are copied on write.
func (n *Node) mergeInto(out, from map[string]any, deep bool, at string) *expr.Failure {
	for _, k := range slices.Sorted(maps.Keys(from)) {
		old, there := out[k]
		if !there {
			out[k] = from[k]
			continue
		}
		below, isObject := old.(map[string]any)
		member, bothObjects := from[k].(map[string]any)
		if deep && isObject && bothObjects {
			merged := maps.Clone(below)
			if f := n.mergeInto(merged, member, deep, at+"/"+finding.EscapePointer(k)); f != nil {
				return f
			}
			out[k] = merged
			continue
		}
		switch {
		case n.OnConflict == "first" || expr.EqualValues(old, from[k]):
		case n.OnConflict == "error":
			return expr.Failf(expr.FailInvariant, "the inputs differ in %s/%s, and on_conflict is error", at, finding.EscapePointer(k))
		default:
			out[k] = from[k]
		}
	}
	return nil
}

func (n *Node) mergeByKey(inputs []any) (any, *expr.Failure) {
	out, places := []any{}, map[string]int{}
	for i, input := range inputs {
		list, ok := input.([]any)
		if !ok {
			return nil, n.inputTypeFailure(i, "an array", input)
		}
		for j, element := range list {
			object, ok := element.(map[string]any)
			if !ok {
				return nil, expr.Failf(expr.FailStateType, "by_key needs objects; element %d of input %d is %s", j, i, expr.TypeName(element))
			}
			key, err := mergeKey(object, n.Key)
			if err != nil {
				return nil, expr.Failf(expr.FailStateType, "element %d of input %d: %v", j, i, err)
			}
			place, there := places[key]
			if !there {
				places[key] = len(out)
				out = append(out, object)
				continue
			}
			merged := maps.Clone(out[place].(map[string]any))
			if f := n.mergeInto(merged, object, false, fmt.Sprintf("/%d", place)); f != nil {
				return nil, f
			}
			out[place] = merged
		}
	}
	return out, nil
}

// mergeKey writes the value of the member name as text that is equal for equal keys.
func mergeKey(object map[string]any, name string) (string, error) {
	value, ok := object[name]
	if !ok {
		return "", fmt.Errorf("there is no key %q", name)
	}
	switch v := value.(type) {
	case string:
		return "s" + v, nil
	case bool:
		return "b" + strconv.FormatBool(v), nil
	case json.Number:
		if d, ok := expr.ParseDecimal(v); ok {
			return fmt.Sprintf("n%d %s %s", d.Sign, d.Digits, d.Exp), nil
		}
	}
	return "", fmt.Errorf("the key %q is %s; a string, a number or a boolean is wanted", name, expr.TypeName(value))
}

// mergePatch is MergePatch of RFC 7396.
func mergePatch(target, patch any) any {
	object, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, _ := target.(map[string]any)
	out := make(map[string]any, len(old)+len(object))
	maps.Copy(out, old)
	for k, v := range object {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = mergePatch(out[k], v)
	}
	return out
}
