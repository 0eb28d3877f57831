package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// classes in the order of their reach.
var classes = []manifests.Class{manifests.ClassRead, manifests.ClassIdempotent, manifests.ClassSprite, manifests.ClassWorld}

// callCheck checks the members of calls, values and questions to people.
type callCheck struct{ *graph }

func isStricter(a, b manifests.Class) bool {
	return slices.Index(classes, a) > slices.Index(classes, b)
}

func (g callCheck) checkToolCall(n *Node, ptr string) {
	defer flowCheck{g.graph}.checkCompensate(n, ptr) // when the tool is known
	g.checkExprText(n.IdempotencyKey, ptr+"/idempotency_key")
	if g.element && n.IdempotencyKey != nil && !variesByItem(n.IdempotencyKey) {
		g.addWarning("key_shared", ptr+"/idempotency_key", `{"concat": ["$in.order", "-", "$index"]}`, "every iteration has this key, so that only one of their calls counts")
	}
	g.checkFork(n, ptr)
	g.checkCache(n, ptr)
	if n.SideEffect != "" && !slices.Contains(classes, n.SideEffect) {
		g.addError("class_invalid", ptr+"/side_effect", "known: read, idempotent, sprite, world", "there is no class %q", n.SideEffect)
	}
	if n.Tool == "" {
		g.addError("field_missing", ptr+"/tool", `"tool": "fs.read"`, "TOOL_CALL names a tool")
		g.checkExprText(n.Args, ptr+"/args")
		return
	}
	if g.doc.Tools != nil && !slices.Contains(g.doc.Tools, n.Tool) {
		g.addError("tool_not_allowed", ptr+"/tool", "add it to tools", "%s is not in the document's list of tools", n.Tool)
	}
	skill, ok := g.lookup(n.Tool)
	if !ok {
		g.addError("tool_unknown", ptr+"/tool", suggestSkill(n.Tool), "there is no skill %q", n.Tool)
		g.checkExprText(n.Args, ptr+"/args")
		return
	}
	g.tools[n.Tool] = skill
	g.checkArgs(n, skill, ptr+"/args")
	if class, _, _ := effectiveClass(skill, n.Args); slices.Contains(classes, n.SideEffect) && isStricter(class, n.SideEffect) {
		g.addError("class_weakened", ptr+"/side_effect", "leave it out, or name "+string(class)+" or more", "%s is of class %s; a node may only be stricter", n.Tool, class)
	}
	g.checkCallCache(n, skill, ptr)
}

// checkArgs checks the arguments that are known before the run: names, required ones, and the types of literals.
func (g callCheck) checkArgs(n *Node, skill manifests.Skill, ptr string) {
	g.checkExprText(n.Args, ptr)
	members, static, err := argMembers(n.Args)
	if err != nil {
		g.addError("arg_type", ptr, `{"name": value, …}`, "%v", err)
	}
	if err == nil && static {
		g.checkArgMembers(n.Tool, skill, members, ptr)
	}
}

func (g *graph) checkArgMembers(tool string, skill manifests.Skill, members map[string]any, ptr string) {
	input, dynamic := splitLiterals(members)
	for _, p := range skill.CheckInput(input) {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
		name = pointerUnescaper.Replace(name)
		known := slices.ContainsFunc(skill.Inputs, func(f manifests.Field) bool { return f.Name == name })
		switch _, given := input[name]; {
		case !known:
			g.addError("arg_unknown", ptr+p.Pointer, Near(name, fieldNames(skill.Inputs)), "%q %s", name, p.Message)
		case dynamic[name]:
		case !given:
			g.addError("arg_missing", ptr+p.Pointer, "lattice skill show "+tool, "%s: argument %q %s", tool, name, p.Message)
		default:
			g.addError("arg_type", ptr+p.Pointer, "lattice skill show "+tool, "%s: argument %q %s", tool, name, p.Message)
		}
	}
}

// splitLiterals splits arguments into those known now, as JSON, and those known only at run time, whose values are null
// in input. Null members count as absent.
func splitLiterals(members map[string]any) (map[string]json.RawMessage, map[string]bool) {
	input, dynamic := map[string]json.RawMessage{}, map[string]bool{}
	for name, expr := range members {
		value, f := eval(expr, Scope{}, 0)
		if f != nil || refersTo(expr) { // or malformed, which checkExpr has said
			dynamic[name] = true
			input[name] = json.RawMessage("null")
			continue
		}
		if text, err := Marshal(value); err == nil && value != nil {
			input[name] = text
		}
	}
	return input, dynamic
}

// argMembers returns the expressions of the single arguments. It is not static when a reference stands for all of them.
func argMembers(args json.RawMessage) (members map[string]any, static bool, err error) {
	if args == nil {
		return nil, true, nil
	}
	expr, err := Decode(args)
	if err != nil {
		return nil, false, err
	}
	if text, ok := expr.(string); ok && looksLikeRef(text) {
		return nil, false, nil
	}
	object, ok := expr.(map[string]any)
	switch op := operatorOf(object); {
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

// effectiveClass applies the variants of a manifest to the known arguments. An unknown argument selects the widest class.
func effectiveClass(skill manifests.Skill, args json.RawMessage) (class manifests.Class, permissions []string, exact bool) {
	members, static, err := argMembers(args)
	if err != nil {
		static = false
	}
	input, dynamic := splitLiterals(members)
	exact = true
	if variants := skill.Variants; variants != nil && (!static || dynamic[variants.Input]) {
		exact = false
		input[variants.Input] = json.RawMessage("[]") // chooses no variant, so that all of them count
	}
	class, permissions = skill.Effective(input)
	return class, permissions, exact
}

func fieldNames(fields []manifests.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

func (g callCheck) checkPack(n *Node, ptr string) {
	if len(n.Inputs) == 0 {
		g.addError("field_missing", ptr+"/inputs", `"inputs": {"name": value}`, "PACK needs inputs")
	}
	g.checkInputs(n, ptr)
}

// checkInputs checks input ports and their projections.
func (g *graph) checkInputs(n *Node, ptr string) {
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		at := ptr + "/inputs/" + escapePointer(name)
		g.checkExprText(n.Inputs[name], at)
		if _, both := n.Projection[name]; both {
			expr, _ := Decode(n.Inputs[name])
			if object, ok := expr.(map[string]any); ok && object["pick"] != nil && operatorOf(object) == "ref" {
				g.addError("projection_twice", ptr+"/projection/"+escapePointer(name), "keep one of the two", "%q is projected here and by its own pick", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Projection)) {
		if _, ok := n.Inputs[name]; !ok {
			g.addError("port_unknown", ptr+"/projection/"+escapePointer(name), Near(name, slices.Sorted(maps.Keys(n.Inputs))), "there is no input %q", name)
		}
	}
}

func (g callCheck) checkSwitch(n *Node, ptr string) {
	if len(n.Cases) == 0 {
		g.addError("field_missing", ptr+"/cases", `"cases": [{"name": "red", "when": {"op": "gt", "left": "$vars.failed", "right": 0}}]`, "SWITCH has at least one case")
	}
	seen := map[string]bool{}
	for i, c := range n.Cases {
		at := fmt.Sprintf("%s/cases/%d", ptr, i)
		switch {
		case !idPattern().MatchString(c.Name):
			g.addError("id_invalid", at+"/name", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a case", c.Name)
		case seen[c.Name]:
			g.addError("case_duplicate", at+"/name", "rename one of the two", "there is another case %q", c.Name)
		}
		seen[c.Name] = true
		if c.When == nil {
			g.addError("field_missing", at+"/when", `"when": {"op": "eq", "left": "$vars.x", "right": 1}`, "a case has a condition")
		}
		if _, ok := c.When.IsCase(); ok || c.When.IsOtherwise() {
			g.addError("cond_misplaced", at+"/when", "use default for what no case takes", `"case" and "otherwise" are conditions of edges`)
		}
	}
	if n.Default != "" && !idPattern().MatchString(n.Default) {
		g.addError("id_invalid", ptr+"/default", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a case", n.Default)
	}
}

// mergeTypes maps each strategy to the type of its inputs; merge_patch takes any.
var mergeTypes = map[string]string{
	MergeShallow: "an object", MergeDeep: "an object", MergeConcat: "an array", MergeByKey: "an array", MergeBest: "an array", MergePatch: "",
}

func (g callCheck) checkMerge(n *Node, ptr string) {
	_, known := mergeTypes[n.Strategy]
	switch {
	case n.Strategy == "":
		g.addError("field_missing", ptr+"/strategy", "known: shallow, deep, concat, by_key, best, merge_patch", "MERGE has a strategy")
	case !known:
		g.addError("strategy_invalid", ptr+"/strategy", Near(n.Strategy, slices.Sorted(maps.Keys(mergeTypes))), "there is no strategy %q", n.Strategy)
	}
	switch {
	case n.Strategy == MergeByKey && n.Key == "":
		g.addError("field_missing", ptr+"/key", `"key": "id"`, "by_key names the member that tells elements apart")
	case known && n.Strategy != MergeByKey && n.Key != "":
		g.addError("field_not_allowed", ptr+"/key", "remove it", "%s has no key", n.Strategy)
	}
	switch {
	case n.Strategy == MergeBest && len(n.By) == 0:
		g.addError("field_missing", ptr+"/by", `"by": ["failed", "-passed"]`, "best names the members by which it chooses")
	case known && n.Strategy != MergeBest && len(n.By) > 0:
		g.addError("field_not_allowed", ptr+"/by", "remove it", "%s chooses nothing", n.Strategy)
	}
	switch {
	case n.OnConflict != "" && !slices.Contains([]string{"last", "first", "error"}, n.OnConflict):
		g.addError("on_conflict_invalid", ptr+"/on_conflict", "known: last, first, error", "on_conflict cannot be %q", n.OnConflict)
	case n.OnConflict != "" && (n.Strategy == MergeConcat || n.Strategy == MergeBest || n.Strategy == MergePatch):
		g.addError("field_not_allowed", ptr+"/on_conflict", "remove it", "%s has no conflicts", n.Strategy)
	}
	if len(n.From) == 0 {
		g.addError("field_missing", ptr+"/from", `"from": ["$vars.a", "$vars.b"]`, "MERGE needs values in from")
	}
	for i, input := range n.From {
		at := fmt.Sprintf("%s/from/%d", ptr, i)
		g.checkExprText(input, at)
		if expr, err := Decode(input); err == nil && n.Strategy == MergeByKey && n.Key != "" {
			g.checkMergeKeys(n, expr, at)
		}
	}
}

// checkMergeKeys checks the elements of a list that stands in the document.
func (g callCheck) checkMergeKeys(n *Node, expr any, ptr string) {
	list, _ := expr.([]any)
	for i, element := range list {
		if object, ok := element.(map[string]any); ok && operatorOf(object) == "" {
			if _, ok := object[n.Key]; !ok {
				g.addError("merge_key", fmt.Sprintf("%s/%d", ptr, i), Near(n.Key, slices.Sorted(maps.Keys(object))), "the element has no key %q", n.Key)
			}
		}
	}
}

// ExpectedInputs returns the inputs that a HUMAN node asks for: expected_inputs, or {"choice":"string"} if it offers
// choices, or approved and comments.
func (n *Node) ExpectedInputs() map[string]string {
	switch {
	case len(n.Expected) > 0:
		return maps.Clone(n.Expected)
	case len(n.Choices) > 0:
		return map[string]string{"choice": "string"}
	}
	return map[string]string{"approved": "boolean", "comments": "string"}
}

func (g callCheck) checkHuman(n *Node, ptr string) {
	if n.Prompt == nil {
		g.addError("field_missing", ptr+"/prompt", `"prompt": "Send the mail?"`, "HUMAN asks something: it has a prompt")
	}
	g.checkInputs(n, ptr)
	g.checkExprText(n.Prompt, ptr+"/prompt")
	g.checkExprText(n.Answer, ptr+"/default_answer")
	g.checkAnswerSchema(n, ptr)
	for _, name := range slices.Sorted(maps.Keys(n.Expected)) {
		at := ptr + "/expected_inputs/" + escapePointer(name)
		if !idPattern().MatchString(name) {
			g.addError("id_invalid", at, "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for an input", name)
		}
		if !expectedType(n.Expected[name]) {
			hint := "known: string, integer, boolean, map, array<T>"
			if n.Expected[name] == "number" {
				hint += "; the protocol has no fractions: ask for a string"
			}
			g.addError("expected_type_invalid", at, hint, "there is no input type %q", n.Expected[name])
		}
	}
	for i, c := range n.Choices {
		if c == "" || slices.Contains(n.Choices[:i], c) {
			g.addError("choice_invalid", ptr+"/choices/"+strconv.Itoa(i), "remove the choice that is empty or repeated", "choices are distinct and not empty")
		}
	}
	switch n.OnTimeout {
	case "", "fail":
	case "default":
		if n.Answer == nil {
			g.addError("field_missing", ptr+"/default_answer", `"default_answer": {"name": value}`, `on_timeout "default" needs a default_answer`)
		}
		if n.TimeoutS == 0 {
			g.addError("field_missing", ptr+"/timeout_s", `"timeout_s": 3600`, `on_timeout "default" needs a timeout_s`)
		}
	default:
		g.addError("on_timeout_invalid", ptr+"/on_timeout", `known: "fail", "default"`, "on_timeout cannot be %q", n.OnTimeout)
	}
}

// expectedType knows the type vocabulary of expected_inputs (protocol v1).
func expectedType(t string) bool {
	for range 8 {
		switch t {
		case "string", "integer", "boolean", "map":
			return true
		}
		inner, opens := strings.CutPrefix(t, "array<")
		inner, closes := strings.CutSuffix(inner, ">")
		if !opens || !closes {
			return false
		}
		t = inner
	}
	return false
}

func (g *graph) checkRetry(n *Node, ptr string) {
	for i, r := range n.Retry {
		at := fmt.Sprintf("%s/retry/%d", ptr, i)
		g.checkKinds(r.On, at, i == len(n.Retry)-1)
		if r.MaxAttempts < 0 || r.MaxAttempts > 100 {
			g.addError("limit_invalid", at+"/max_attempts", "it counts all attempts, the first included", "max_attempts is between 1 and 100")
		}
		for name, s := range map[string]float64{"interval_s": r.IntervalS, "max_delay_s": r.MaxDelayS} {
			if s < 0 || s > maxTimeoutS {
				g.addError("limit_invalid", at+"/"+name, "leave it out for the default", "%s is between 0 and %d", name, maxTimeoutS)
			}
		}
		if r.BackoffRate != 0 && (r.BackoffRate < 1 || r.BackoffRate > 100) {
			g.addError("limit_invalid", at+"/backoff_rate", `"backoff_rate": 2`, "backoff_rate is between 1 and 100")
		}
		if r.Jitter != "" && r.Jitter != "none" && r.Jitter != "full" {
			g.addError("jitter_invalid", at+"/jitter", "known: none, full", "there is no jitter %q", r.Jitter)
		}
	}
}

func (g *graph) checkCatch(n *Node, ptr string) {
	for i, c := range n.Catch {
		at := fmt.Sprintf("%s/catch/%d", ptr, i)
		g.checkKinds(c.On, at, i == len(n.Catch)-1)
		if c.To == "" {
			g.addError("field_missing", at+"/to", `"to": "report"`, "catch names the node to go to")
		} else {
			g.checkTarget(c.To, at+"/to")
		}
		if c.Bind != "" {
			g.checkWrite(c.Bind, at+"/bind", "bind to $tmp.name or $vars.name")
		}
	}
}

// checkKinds checks the failure kinds of one rule. ALL stands alone, in the last rule.
func (g *graph) checkKinds(on []string, ptr string, last bool) {
	if len(on) == 0 {
		g.addError("field_missing", ptr+"/on", `["ALL"] takes every kind`, "the rule names no failure kind")
	}
	for i, kind := range on {
		at := ptr + "/on/" + strconv.Itoa(i)
		switch {
		case kind == "ALL":
			if len(on) > 1 || !last {
				g.addError("all_misplaced", at, "give ALL a rule of its own, the last one", "ALL must be the only kind of the last rule")
			}
		case !slices.Contains(FailureKinds(), kind):
			g.addError("failure_kind_unknown", at, OneOf(kind, FailureKinds()), "there is no failure kind %q", kind)
		}
	}
}
