package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// cacheKey returns the key under which the result of the current call is cached, "" if it is not.
func (t callOp) cacheKey(node *ir.Node) string {
	c := t.Visit.Call
	if node.Cache != ir.CacheRun || node.Compensate != nil || c.Class != manifests.ClassRead && c.Class != manifests.ClassIdempotent {
		return ""
	}
	grants := fmt.Sprintf("%q %q", c.Permissions, c.Below)
	given := "" // two keys of the flow's own are two calls
	if len(node.IdempotencyKey) > 0 {
		given = c.IdempotencyKey
	}
	// Files that were written in a fork are not in the sprite.
	return lattice.DerivedKey("call", t.Sprite(), strconv.FormatBool(node.ForksSprites()), c.Skill, string(c.Input), string(c.Class), grants, given)
}

// cacheKey returns the key of the answer to a prompt: the digest of all that decides which answer is valid.
func (t llmOp) cacheKey(node *ir.Node, at ladder.Rung, q inquiry) string {
	if node.Cache != ir.CacheRun {
		return ""
	}
	r, f := t.buildRequest(node, at, q)
	held := []any{node.Op, node.AllowUnknown, node.Validators, node.RetryPolicy, node.Escalation, q.ids, q.labels}
	for _, v := range node.Validators { // documents may have other schemas by one name
		schema, _ := t.Run.Program.OutputSchema(node, v.Schema)
		held = append(held, schema)
	}
	rules, err := expr.Marshal(held)
	if f != nil || err != nil {
		return "" // the request itself reports why
	}
	r.BudgetUSD, r.Trimmed = nil, nil
	return lattice.DerivedKey("model", r.Digest(), string(rules))
}

// finishFromCache completes the current call with a cached answer. It reports whether there is one.
func (t callOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.CachedAnswer(node)
	if !ok {
		return false
	}
	var ports map[string]any
	if t.runsInCopy() {
		t.reuseCopy(node, hit.Copy)
		ports = map[string]any{"sprite": hit.Copy}
	}
	t.CompleteNode(hit.Value, ports)
	return true
}

// finishFromCache completes the current node with a cached answer. It reports whether there is one.
func (t llmOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.CachedAnswer(node)
	if !ok {
		return false
	}
	q, f := t.buildPrompt(node)
	if f != nil {
		t.FailVisit(f)
		return true
	}
	t.Visit.Asking = nil
	t.CompleteNode(hit.Value, map[string]any{
		"attempts": machine.Number(0), "escalated": false, "repaired": false, "cached": true, "class": hit.Class, "item": q.chosen(hit.Value),
	})
	return true
}

// reuseCopy makes the fork in which the cached result was made the fork of the current call.
func (t callOp) reuseCopy(node *ir.Node, name string) {
	m := t.Run
	if t.Visit.Call.Sprite != t.Sprite() { // the fork was made before the result was cached
		t.releaseCopy(node, false)
	}
	if node.KeepSprite && !slices.Contains(m.State.Kept, name) {
		m.State.Kept = append(m.State.Kept, name)
	}
}
