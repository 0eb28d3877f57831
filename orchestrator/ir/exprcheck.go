package ir

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

const refHint = `a reference is a whole string such as "$vars.a.b[0]"; "$$x" is the text "$x"; {"concat":["a ","$vars.x"]} joins`

// closedRoots are the namespaces that validators can read. They do not depend on the state of the run, so a validator
// gives the same result each time.
var closedRoots = map[string]bool{"$out": true, "$in": true, "$item": true, "$index": true}

// checkRef reads a reference and checks that its namespace has a meaning here.
func checkRef(text, ptr string, scope condScope, r *report) ref {
	got, err := parseRef(text)
	switch {
	case err != nil:
		r.addError("ref_invalid", ptr, refHint, "%v", err)
	case got.root == "$out" && !scope.output:
		r.addError("ref_scope", ptr, "write the output to $vars or $tmp and read it from there", "$out is known only to validators and compensate")
	case !scope.element && (got.root == "$item" || got.root == "$index"):
		r.addError("ref_scope", ptr, "outside of them, name $vars, $tmp, $ctx or $in", "%s has a meaning only in the body of a MAP or LOOP and inside of any and all", got.root)
	case scope.closed && !closedRoots[got.root]:
		r.addError("ref_scope", ptr, "pass it to the node as an input, which is a member of $in here", "a validator sees $out and $in, the node's inputs, and not %s", got.root)
	}
	return got
}

// checkExpr checks the form of a value expression, for which all strings must be text or references as a whole.
func checkExpr(v any, ptr string, scope condScope, r *report) {
	switch v := v.(type) {
	case string:
		if looksLikeRef(v) {
			checkRef(v, ptr, scope, r)
		}
	case []any:
		for i := range v {
			checkExpr(v[i], ptr+"/"+strconv.Itoa(i), scope, r)
		}
	case map[string]any:
		switch operatorOf(v) {
		case "lit":
			return
		case "ref":
			checkRefOptions(v, ptr, scope, r)
			return
		case "concat":
			if _, ok := v["concat"].([]any); !ok {
				r.addError("expr_invalid", ptr+"/concat", `{"lit":…} keeps an object as it is`, "concat needs an array; this is %s", typeName(v["concat"]))
			}
		}
		warnOptions(v, ptr, r)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			checkExpr(v[k], ptr+"/"+escapePointer(k), scope, r)
		}
	}
}

// warnOptions warns of an object that is plain data and looks like a reference with a misspelt option.
func warnOptions(v map[string]any, ptr string, r *report) {
	if text, ok := v["ref"].(string); !ok || operatorOf(v) != "" || !looksLikeRef(text) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		if hint := Near(k, slices.Sorted(maps.Keys(refOptions))); k != "ref" && strings.HasPrefix(hint, "did you mean") {
			r.addWarning("option_unknown", ptr+"/"+escapePointer(k), hint, "this is an object with the members ref and %s, not a reference: a reference has no option %q", k, k)
		}
	}
}

func checkRefOptions(v map[string]any, ptr string, scope condScope, r *report) {
	for _, k := range slices.Sorted(maps.Keys(v)) {
		at := ptr + "/" + k
		ok, want := true, ""
		switch k {
		case "ref":
			checkRef(v[k].(string), at, scope, r)
		case "default":
			checkExpr(v[k], at, scope, r)
		case "pick", "omit":
			_, ok = stringList(v[k])
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
			r.addError("expr_invalid", ptr+"/"+escapePointer(k), Near(k, slices.Sorted(maps.Keys(refOptions))), "a reference has no option %q", k)
		}
		if !ok {
			r.addError("expr_invalid", at, examples[want], "%q is %s", k, want)
		}
	}
}

// refersTo reports whether the value of v depends on the state of the run.
func refersTo(v any) bool {
	switch v := v.(type) {
	case string:
		return looksLikeRef(v)
	case []any:
		return slices.ContainsFunc(v, refersTo)
	case map[string]any:
		if operatorOf(v) == "lit" {
			return false
		}
		for _, m := range v {
			if refersTo(m) {
				return true
			}
		}
	}
	return false
}

// exprRefs calls visit for every reference whose absence would fail the evaluation of v.
func exprRefs(v any, ptr string, visit func(r ref, ptr string)) {
	switch v := v.(type) {
	case string:
		if looksLikeRef(v) {
			if r, err := parseRef(v); err == nil {
				visit(r, ptr)
			}
		}
	case []any:
		for i := range v {
			exprRefs(v[i], ptr+"/"+strconv.Itoa(i), visit)
		}
	case map[string]any:
		switch operatorOf(v) {
		case "lit":
		case "ref":
			if fallback, ok := v["default"]; ok {
				exprRefs(fallback, ptr+"/default", visit)
			} else {
				exprRefs(v["ref"], ptr+"/ref", visit)
			}
		default:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				exprRefs(v[k], ptr+"/"+escapePointer(k), visit)
			}
		}
	}
}

// condRefs does the same for a condition. An operand of "and" is evaluated only if those before it are true, so visit is
// told which references those prove to exist.
func condRefs(n *condNode, ptr string, proved []ref, visit func(r ref, ptr string, proved []ref)) {
	if n == nil {
		return
	}
	guarded := func(r ref, at string) { visit(r, at, proved) }
	switch n.op {
	case "and":
		for i, a := range n.args {
			condRefs(a, ptr+"/args/"+strconv.Itoa(i), proved, visit)
			proved = append(slices.Clip(proved), a.provenRefs()...)
		}
	case "or", "not":
		for i, a := range n.args {
			condRefs(a, ptr+"/args/"+strconv.Itoa(i), proved, visit)
		}
	case "any", "all":
		exprRefs(n.left, ptr+"/items", guarded)
		condRefs(n.where, ptr+"/where", proved, visit)
	case "is_null", "type_is", "has_key":
		visit(n.ref, ptr+"/ref", proved)
	default:
		exprRefs(n.left, ptr+"/left", guarded)
		exprRefs(n.right, ptr+"/right", guarded)
	}
}
