package ir

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Classes in the order of their reach.
var Classes = []manifests.Class{manifests.ClassRead, manifests.ClassIdempotent, manifests.ClassSprite, manifests.ClassWorld}

func IsStricter(a, b manifests.Class) bool {
	return slices.Index(Classes, a) > slices.Index(Classes, b)
}

// SplitLiterals splits arguments into those known now, as JSON, and those known only at run time, whose values are null
// in input. Null members count as absent.
func SplitLiterals(members map[string]any) (map[string]json.RawMessage, map[string]bool) {
	input, dynamic := map[string]json.RawMessage{}, map[string]bool{}
	for name, expression := range members {
		value, f := expr.EvalValue(expression, expr.Scope{}, 0)
		if f != nil || expr.RefersTo(expression) { // or malformed, which checkExpr has said
			dynamic[name] = true
			input[name] = json.RawMessage("null")
			continue
		}
		if text, err := expr.Marshal(value); err == nil && value != nil {
			input[name] = text
		}
	}
	return input, dynamic
}

// ArgMembers returns the expressions of the single arguments. It is not static when a reference stands for all of them.
func ArgMembers(args json.RawMessage) (members map[string]any, static bool, err error) {
	if args == nil {
		return nil, true, nil
	}
	expression, err := expr.Decode(args)
	if err != nil {
		return nil, false, err
	}
	if text, ok := expression.(string); ok && expr.LooksLikeRef(text) {
		return nil, false, nil
	}
	object, ok := expression.(map[string]any)
	switch op := expr.OperatorOf(object); {
	case !ok || op == "concat" || op == "len" || op == "json":
		return nil, false, fmt.Errorf("args is an object of named arguments")
	case op == "ref":
		return nil, false, nil
	case op == "lit":
		literal, ok := object["lit"].(map[string]any)
		if !ok {
			return nil, false, fmt.Errorf("args is an object of named arguments")
		}
		members = map[string]any{}
		for k, m := range literal {
			members[k] = map[string]any{"lit": m}
		}
		return members, true, nil
	}
	return object, true, nil
}

// EffectiveClass applies the variants of a manifest to the known arguments. An unknown argument selects the widest class.
func EffectiveClass(skill manifests.Skill, args json.RawMessage) (class manifests.Class, permissions []string, exact bool) {
	members, static, err := ArgMembers(args)
	if err != nil {
		static = false
	}
	input, dynamic := SplitLiterals(members)
	exact = true
	if variants := skill.Variants; variants != nil && (!static || dynamic[variants.Input]) {
		exact = false
		input[variants.Input] = json.RawMessage("[]") // chooses no variant, so that all of them count
	}
	class, permissions = skill.Effective(input)
	return class, permissions, exact
}
