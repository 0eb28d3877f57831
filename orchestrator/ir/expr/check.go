package expr

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

const refHint = `a reference is a whole string such as "$vars.a.b[0]"; "$$x" is the text "$x"; {"concat":["a ","$vars.x"]} joins`

// ClosedRoots are the namespaces that validators can read. They do not depend on the state of the run, so a validator
// gives the same result each time.
var ClosedRoots = map[string]bool{"$out": true, "$in": true, "$item": true, "$index": true}

// checkRef reads a reference and checks that its namespace has a meaning here.
func checkRef(text, ptr string, scope CondScope, r *finding.Report) Ref {
	got, err := ParseRef(text)
	switch {
	case err != nil:
		r.AddError("ref_invalid", ptr, refHint, "%v", err)
	case got.Root == "$out" && !scope.Output:
		r.AddError("ref_scope", ptr, "write the output to $vars or $tmp and read it from there", "$out is known only to validators and compensate")
	case !scope.Element && (got.Root == "$item" || got.Root == "$index"):
		r.AddError("ref_scope", ptr, "outside of them, name $vars, $tmp, $ctx or $in", "%s has a meaning only in the body of a MAP or LOOP and inside of any and all", got.Root)
	case scope.Closed && !ClosedRoots[got.Root]:
		r.AddError("ref_scope", ptr, "pass it to the node as an input, which is a member of $in here", "a validator sees $out and $in, the node's inputs, and not %s", got.Root)
	}
	return got
}

// CheckExpr checks the form of a value expression, for which all strings must be text or references as a whole.
func CheckExpr(v any, ptr string, scope CondScope, r *finding.Report) {
	switch v := v.(type) {
	case string:
		if LooksLikeRef(v) {
			checkRef(v, ptr, scope, r)
		}
	case []any:
		for i := range v {
			CheckExpr(v[i], ptr+"/"+strconv.Itoa(i), scope, r)
		}
	case map[string]any:
		switch OperatorOf(v) {
		case "lit":
			return
		case "ref":
			checkRefOptions(v, ptr, scope, r)
			return
		case "concat":
			if _, ok := v["concat"].([]any); !ok {
				r.AddError("expr_invalid", ptr+"/concat", `{"lit":…} keeps an object as it is`, "concat needs an array; this is %s", TypeName(v["concat"]))
			}
		}
		warnOptions(v, ptr, r)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			CheckExpr(v[k], ptr+"/"+finding.EscapePointer(k), scope, r)
		}
	}
}

// warnOptions warns of an object that is plain data and looks like a reference with a misspelt option.
func warnOptions(v map[string]any, ptr string, r *finding.Report) {
	if text, ok := v["ref"].(string); !ok || OperatorOf(v) != "" || !LooksLikeRef(text) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if hint := finding.Near(k, slices.Sorted(maps.Keys(refOptions))); k != "ref" && strings.HasPrefix(hint, "did you mean") {
			r.AddWarning("option_unknown", ptr+"/"+finding.EscapePointer(k), hint, "this is an object with the members ref and %s, not a reference: a reference has no option %q", k, k)
		}
	}
}

func checkRefOptions(v map[string]any, ptr string, scope CondScope, r *finding.Report) {
	for _, k := range slices.Sorted(maps.Keys(v)) {
		at := ptr + "/" + k
		ok, want := true, ""
		switch k {
		case "ref":
			checkRef(v[k].(string), at, scope, r)
		case "default":
			CheckExpr(v[k], at, scope, r)
		case "pick", "omit":
			_, ok = StringList(v[k])
			want = "a list of member names"
		case "pick_required":
			_, ok = v[k].(bool)
			want = "true or false"
		case "truncate_items", "truncate_chars", "max_bytes":
			_, ok = wholeNumber(v[k])
			want = "a whole number"
		case "from":
			ok = v[k] == "head" || v[k] == "tail"
			want = `"head" or "tail"`
		default:
			r.AddError("expr_invalid", ptr+"/"+finding.EscapePointer(k), finding.Near(k, slices.Sorted(maps.Keys(refOptions))), "a reference has no option %q", k)
		}
		if !ok {
			r.AddError("expr_invalid", at, finding.Examples[want], "%q is %s", k, want)
		}
	}
}

// RefersTo reports whether the value of v depends on the state of the run.
func RefersTo(v any) bool {
	switch v := v.(type) {
	case string:
		return LooksLikeRef(v)
	case []any:
		return slices.ContainsFunc(v, RefersTo)
	case map[string]any:
		if OperatorOf(v) == "lit" {
			return false
		}
		for _, m := range v {
			if RefersTo(m) {
				return true
			}
		}
	}
	return false
}

// ExprRefs calls visit for every reference whose absence would fail the evaluation of v.
func ExprRefs(v any, ptr string, visit func(r Ref, ptr string)) {
	switch v := v.(type) {
	case string:
		if LooksLikeRef(v) {
			if r, err := ParseRef(v); err == nil {
				visit(r, ptr)
			}
		}
	case []any:
		for i := range v {
			ExprRefs(v[i], ptr+"/"+strconv.Itoa(i), visit)
		}
	case map[string]any:
		switch OperatorOf(v) {
		case "lit":
		case "ref":
			if fallback, ok := v["default"]; ok {
				ExprRefs(fallback, ptr+"/default", visit)
			} else {
				ExprRefs(v["ref"], ptr+"/ref", visit)
			}
		default:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				ExprRefs(v[k], ptr+"/"+finding.EscapePointer(k), visit)
			}
		}
	}
}

// CondRefs does the same for a condition. An operand of "and" is evaluated only if those before it are true, so visit is
// told which references those prove to exist.
func CondRefs(n *CondNode, ptr string, proved []Ref, visit func(r Ref, ptr string, proved []Ref)) {
	if n == nil {
		return
	}
	guarded := func(r Ref, at string) { visit(r, at, proved) }
	switch n.Op {
	case "and":
		for i, a := range n.Args {
			CondRefs(a, ptr+"/args/"+strconv.Itoa(i), proved, visit)
			proved = append(slices.Clip(proved), a.ProvenRefs()...)
		}
	case "or", "not":
		for i, a := range n.Args {
			CondRefs(a, ptr+"/args/"+strconv.Itoa(i), proved, visit)
		}
	case "any", "all":
		ExprRefs(n.Left, ptr+"/items", guarded)
		CondRefs(n.Where, ptr+"/where", proved, visit)
	case "is_null", "type_is", "has_key":
		visit(n.Ref, ptr+"/ref", proved)
	default:
		ExprRefs(n.Left, ptr+"/left", guarded)
		ExprRefs(n.Right, ptr+"/right", guarded)
	}
}

// ReadsOnly reports whether n reads nothing outside of these namespaces.
func (n *CondNode) ReadsOnly(roots ...string) bool {
	inner := slices.Concat(roots, []string{"$item", "$index"})
	for _, a := range n.Args {
		if !a.ReadsOnly(roots...) {
			return false
		}
	}
	return (n.Ref.Root == "" || slices.Contains(roots, n.Ref.Root)) && ExprReads(n.Left, roots) && ExprReads(n.Right, roots) &&
		(n.Where == nil || n.Where.ReadsOnly(inner...))
}

func ExprReads(v any, roots []string) bool {
	switch v := v.(type) {
	case string:
		r, err := ParseRef(v)
		return !LooksLikeRef(v) || err == nil && slices.Contains(roots, r.Root)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !ExprReads(e, roots) })
	case map[string]any:
		if OperatorOf(v) == "lit" {
			return true
		}
		for _, e := range v {
			if !ExprReads(e, roots) {
				return false
			}
		}
	}
	return true
}
