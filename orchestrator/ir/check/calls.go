package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// callCheck checks the members of calls, values and questions to people.
type callCheck struct{ *graph }

func (g callCheck) checkToolCall(n *ir.Node, ptr string) {
	defer flowCheck(g).checkCompensate(n, ptr) // when the tool is known
	g.checkExprText(n.IdempotencyKey, ptr+"/idempotency_key")
	if g.element && n.IdempotencyKey != nil && !ir.VariesByItem(n.IdempotencyKey) {
		g.AddWarning("key_shared", ptr+"/idempotency_key", `{"concat": ["$in.order", "-", "$index"]}`, "every iteration has this key, so that only one of their calls counts")
	}
	g.checkFork(n, ptr)
	g.checkRestore(n, ptr)
	if n.OnLoss != "" && n.OnLoss != ir.LossRepeats && n.OnLoss != ir.LossFails {
		g.AddError("on_loss_invalid", ptr+"/on_loss", "known: repeat, fail", "on_loss cannot be %q", n.OnLoss)
	}
	g.checkCache(n, ptr)
	if n.SideEffect != "" && !slices.Contains(ir.Classes, n.SideEffect) {
		g.AddError("class_invalid", ptr+"/side_effect", "known: read, idempotent, sprite, world", "there is no class %q", n.SideEffect)
	}
	if n.Tool == "" {
		g.AddError("field_missing", ptr+"/tool", `"tool": "fs.read"`, "TOOL_CALL names a tool")
		g.checkExprText(n.Args, ptr+"/args")
		return
	}
	if g.doc.Tools != nil && !slices.Contains(g.doc.Tools, n.Tool) {
		g.AddError("tool_not_allowed", ptr+"/tool", "add it to tools", "%s is not in the document's list of tools", n.Tool)
	}
	skill, ok := g.lookup(n.Tool)
	if !ok {
		g.AddError("tool_unknown", ptr+"/tool", suggestSkill(n.Tool), "there is no skill %q", n.Tool)
		g.checkExprText(n.Args, ptr+"/args")
		return
	}
	g.tools[n.Tool] = skill
	g.checkArgs(n, skill, ptr+"/args")
	if class, _, _ := ir.EffectiveClass(skill, n.Args); slices.Contains(ir.Classes, n.SideEffect) && ir.IsStricter(class, n.SideEffect) {
		g.AddError("class_weakened", ptr+"/side_effect", "leave it out, or name "+string(class)+" or more", "%s is of class %s; a node may only be stricter", n.Tool, class)
	}
	g.checkCallCache(n, skill, ptr)
}

// checkRestore checks the node to whose files a call goes back. Nothing else may be at work in the sprite then.
func (g callCheck) checkRestore(n *ir.Node, ptr string) {
	if n.Restore == "" {
		return
	}
	ptr += "/restore"
	g.checkTarget(n.Restore, ptr)
	i, ok := g.index[n.Restore]
	switch {
	case g.owner != nil:
		g.AddError("restore_invalid", ptr, "move the call out of "+g.owner.ID, "files go back only in the document's own graph")
	case n.ForksSprites():
		g.AddError("restore_invalid", ptr, "remove one of the two", "%s runs in a fork of the sprite, whose files are new", n.ID)
	case ok && (n.Restore == n.ID || g.Nodes[i].Op != ir.OpToolCall || g.Nodes[i].ForksSprites()):
		g.AddError("restore_invalid", ptr, "name a TOOL_CALL without a fork", "there are no files before %s to go back to", n.Restore)
	}
}

// checkArgs checks the arguments that are known before the run: names, required ones, and the types of literals.
func (g callCheck) checkArgs(n *ir.Node, skill manifests.Skill, ptr string) {
	g.checkExprText(n.Args, ptr)
	members, static, err := ir.ArgMembers(n.Args)
	if err != nil {
		g.AddError("arg_type", ptr, `{"name": value, …}`, "%v", err)
	}
	if err == nil && static {
		g.checkArgMembers(n.Tool, skill, members, ptr)
	}
}

func fieldNames(fields []manifests.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

func (g callCheck) checkPack(n *ir.Node, ptr string) {
	if len(n.Inputs) == 0 {
		g.AddError("field_missing", ptr+"/inputs", `"inputs": {"name": value}`, "PACK needs inputs")
	}
	g.checkInputs(n, ptr)
}

func (g callCheck) checkSwitch(n *ir.Node, ptr string) {
	if len(n.Cases) == 0 {
		g.AddError("field_missing", ptr+"/cases", `"cases": [{"name": "red", "when": {"op": "gt", "left": "$vars.failed", "right": 0}}]`, "SWITCH has at least one case")
	}
	seen := map[string]bool{}
	for i, c := range n.Cases {
		at := fmt.Sprintf("%s/cases/%d", ptr, i)
		switch {
		case !ir.IDPattern().MatchString(c.Name):
			g.AddError("id_invalid", at+"/name", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a case", c.Name)
		case seen[c.Name]:
			g.AddError("case_duplicate", at+"/name", "rename one of the two", "there is another case %q", c.Name)
		}
		seen[c.Name] = true
		if c.When == nil {
			g.AddError("field_missing", at+"/when", `"when": {"op": "eq", "left": "$vars.x", "right": 1}`, "a case has a condition")
		}
		if _, ok := c.When.IsCase(); ok || c.When.IsOtherwise() {
			g.AddError("cond_misplaced", at+"/when", "use default for what no case takes", `"case" and "otherwise" are conditions of edges`)
		}
	}
	if n.Default != "" && !ir.IDPattern().MatchString(n.Default) {
		g.AddError("id_invalid", ptr+"/default", "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for a case", n.Default)
	}
}

// mergeTypes maps each strategy to the type of its inputs; merge_patch takes any.
var mergeTypes = map[string]string{
	ir.MergeShallow: "an object", ir.MergeDeep: "an object", ir.MergeConcat: "an array", ir.MergeByKey: "an array", ir.MergeBest: "an array", ir.MergePatch: "",
}

func (g callCheck) checkMerge(n *ir.Node, ptr string) {
	_, known := mergeTypes[n.Strategy]
	switch {
	case n.Strategy == "":
		g.AddError("field_missing", ptr+"/strategy", "known: shallow, deep, concat, by_key, best, merge_patch", "MERGE has a strategy")
	case !known:
		g.AddError("strategy_invalid", ptr+"/strategy", finding.Near(n.Strategy, slices.Sorted(maps.Keys(mergeTypes))), "there is no strategy %q", n.Strategy)
	}
	switch {
	case n.Strategy == ir.MergeByKey && n.Key == "":
		g.AddError("field_missing", ptr+"/key", `"key": "id"`, "by_key names the member that tells elements apart")
	case known && n.Strategy != ir.MergeByKey && n.Key != "":
		g.AddError("field_not_allowed", ptr+"/key", "remove it", "%s has no key", n.Strategy)
	}
	switch {
	case n.Strategy == ir.MergeBest && len(n.By) == 0:
		g.AddError("field_missing", ptr+"/by", `"by": ["failed", "-passed"]`, "best names the members by which it chooses")
	case known && n.Strategy != ir.MergeBest && len(n.By) > 0:
		g.AddError("field_not_allowed", ptr+"/by", "remove it", "%s chooses nothing", n.Strategy)
	}
	switch {
	case n.OnConflict != "" && !slices.Contains([]string{"last", "first", "error"}, n.OnConflict):
		g.AddError("on_conflict_invalid", ptr+"/on_conflict", "known: last, first, error", "on_conflict cannot be %q", n.OnConflict)
	case n.OnConflict != "" && (n.Strategy == ir.MergeConcat || n.Strategy == ir.MergeBest || n.Strategy == ir.MergePatch):
		g.AddError("field_not_allowed", ptr+"/on_conflict", "remove it", "%s has no conflicts", n.Strategy)
	}
	if len(n.From) == 0 {
		g.AddError("field_missing", ptr+"/from", `"from": ["$vars.a", "$vars.b"]`, "MERGE needs values in from")
	}
	for i, input := range n.From {
		at := fmt.Sprintf("%s/from/%d", ptr, i)
		g.checkExprText(input, at)
		if expression, err := expr.Decode(input); err == nil && n.Strategy == ir.MergeByKey && n.Key != "" {
			g.checkMergeKeys(n, expression, at)
		}
	}
}

// checkMergeKeys checks the elements of a list that stands in the document.
func (g callCheck) checkMergeKeys(n *ir.Node, expression any, ptr string) {
	list, _ := expression.([]any)
	for i, element := range list {
		if object, ok := element.(map[string]any); ok && expr.OperatorOf(object) == "" {
			if _, ok := object[n.Key]; !ok {
				g.AddError("merge_key", fmt.Sprintf("%s/%d", ptr, i), finding.Near(n.Key, slices.Sorted(maps.Keys(object))), "the element has no key %q", n.Key)
			}
		}
	}
}

func (g callCheck) checkHuman(n *ir.Node, ptr string) {
	if n.Prompt == nil {
		g.AddError("field_missing", ptr+"/prompt", `"prompt": "Send the mail?"`, "HUMAN asks something: it has a prompt")
	}
	g.checkInputs(n, ptr)
	g.checkExprText(n.Prompt, ptr+"/prompt")
	g.checkExprText(n.Answer, ptr+"/default_answer")
	g.checkAnswerSchema(n, ptr)
	g.checkApproves(n, ptr)
	for _, name := range slices.Sorted(maps.Keys(n.Expected)) {
		at := ptr + "/expected_inputs/" + finding.EscapePointer(name)
		if !ir.IDPattern().MatchString(name) {
			g.AddError("id_invalid", at, "letters, digits, _ . and -, a letter first, at most 64", "%q is not a valid name for an input", name)
		}
		if !expectedType(n.Expected[name]) {
			hint := "known: string, integer, boolean, map, array<T>"
			if n.Expected[name] == "number" {
				hint += "; the protocol has no fractions: ask for a string"
			}
			g.AddError("expected_type_invalid", at, hint, "there is no input type %q", n.Expected[name])
		}
	}
	for i, c := range n.Choices {
		if c == "" || slices.Contains(n.Choices[:i], c) {
			g.AddError("choice_invalid", ptr+"/choices/"+strconv.Itoa(i), "remove the choice that is empty or repeated", "choices are distinct and not empty")
		}
	}
	switch n.OnTimeout {
	case "", "fail":
	case "default":
		if n.Answer == nil {
			g.AddError("field_missing", ptr+"/default_answer", `"default_answer": {"name": value}`, `on_timeout "default" needs a default_answer`)
		}
		if n.TimeoutS == 0 {
			g.AddError("field_missing", ptr+"/timeout_s", `"timeout_s": 3600`, `on_timeout "default" needs a timeout_s`)
		}
	default:
		g.AddError("on_timeout_invalid", ptr+"/on_timeout", `known: "fail", "default"`, "on_timeout cannot be %q", n.OnTimeout)
	}
}

// checkApproves checks the nodes whose calls an approval allows. A person who chooses or types an answer approves nothing.
func (g callCheck) checkApproves(n *ir.Node, ptr string) {
	if len(n.Approves) > 0 && len(n.Choices)+len(n.Expected) > 0 {
		g.AddError("field_not_allowed", ptr+"/approves", "remove it, or choices and expected_inputs", "only a question that is approved or rejected allows calls")
	}
	for i, id := range n.Approves {
		at := ptr + "/approves/" + strconv.Itoa(i)
		g.checkTarget(id, at)
		j, ok := g.index[id]
		if !ok {
			continue
		}
		called := &g.Nodes[j]
		class := manifests.ClassWorld
		if skill, known := g.lookup(called.Tool); known {
			class, _, _ = ir.EffectiveClass(skill, called.Args)
			if called.SideEffect != "" && ir.IsStricter(called.SideEffect, class) {
				class = called.SideEffect
			}
		}
		switch {
		case called.Op != ir.OpToolCall:
			g.AddError("approves_invalid", at, "name TOOL_CALL nodes", "%s is not a TOOL_CALL", id)
		case class != manifests.ClassWorld:
			g.AddError("approves_invalid", at, "remove it", "the call of %s is of class %s and needs no approval", called.Tool, class)
		case slices.Contains(n.Approves[:i], id):
			g.AddError("approves_invalid", at, "remove one of the two", "%s is named twice", id)
		}
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
