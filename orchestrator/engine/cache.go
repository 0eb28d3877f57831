package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Nodes with cache "run" do not ask twice. What a call or a model answered is part of the run's state, by the digest of all
// that was asked; a node that would ask the same takes it, and an event says so. So replay and rewind agree with the run:
// what was kept behind a moment is gone with it. While one asks, others that would ask the same wait for its answer.
//
// What a skill answers depends on the files, too: it holds until something writes in that sprite, or its files are put
// back, or somebody is waited for, who may write there meanwhile. Only calls of class read and idempotent are kept, unless
// they are to be taken back, and no failure ever is. The oldest answers make room.

// Cached is an answer that is kept.
type Cached struct {
	Key    string `json:"key"`
	Node   string `json:"node"`             // which got it
	Sprite string `json:"sprite,omitempty"` // whose files it depends on
	Copy   string `json:"copy,omitempty"`   // in which it was made, of a call with a sprite of its own
	Class  string `json:"class,omitempty"`  // of models
	Value  any    `json:"value"`
	Bytes  int    `json:"bytes"` // of Value as JSON
}

// Bounds of what one run keeps.
const (
	maxCached      = 256
	maxCachedBytes = 256 << 10
)

// cacheKey is by what the current call's answer is kept, "" when it is not.
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
	// What was written in a copy is not in the sprite.
	return lattice.DerivedKey("call", t.sprite(), strconv.FormatBool(node.ForksSprites()), c.Skill, string(c.Input), string(c.Class), grants, given)
}

// cacheKey returns the key of the answer to a prompt: the digest of all that decides which answer is valid.
func (t llmOp) cacheKey(node *ir.Node, at ladder.Rung, q inquiry) string {
	if node.Cache != ir.CacheRun {
		return ""
	}
	r, f := t.buildRequest(node, at, q)
	held := []any{node.Op, node.AllowUnknown, node.Validators, node.RetryPolicy, node.Escalation, q.ids, q.labels}
	for _, v := range node.Validators { // documents may have other schemas by one name
		schema, _ := t.m.p.OutputSchema(node, v.Schema)
		held = append(held, schema)
	}
	rules, err := ir.Marshal(held)
	if f != nil || err != nil {
		return "" // the question itself says why
	}
	r.BudgetUSD, r.Trimmed = nil, nil
	return lattice.DerivedKey("model", r.Digest(), string(rules))
}

// cachedAnswer returns the answer to the same request, if there is one, and records that the node takes it.
func (t *thread) cachedAnswer(node *ir.Node) (Cached, bool) {
	m := t.m
	v := t.Visit
	i := slices.IndexFunc(m.s.Cache, func(c Cached) bool { return c.Key == v.Key })
	if v.Key == "" || i < 0 {
		return Cached{}, false
	}
	hit := m.s.Cache[i]
	v.Key = ""
	m.s.Emitted = append(m.s.Emitted, Emitted{Key: t.visitKey("cache"), Node: node.ID, Info: map[string]any{
		"kind": "cache_hit", "message": fmt.Sprintf("%s takes what %s was answered", node.ID, hit.Node),
		"metadata": map[string]any{"node": node.ID, "from": hit.Node, "key": hit.Key},
	}})
	return hit, true
}

// finishFromCache completes the current call with a cached answer. It reports whether there is one.
func (t callOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.cachedAnswer(node)
	if !ok {
		return false
	}
	var ports map[string]any
	if t.runsInCopy() {
		t.reuseCopy(node, hit.Copy)
		ports = map[string]any{"sprite": hit.Copy}
	}
	t.completeNode(hit.Value, ports)
	return true
}

// finishFromCache completes the current node with a cached answer. It reports whether there is one.
func (t llmOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.cachedAnswer(node)
	if !ok {
		return false
	}
	q, f := t.buildPrompt(node)
	if f != nil {
		t.failVisit(f)
		return true
	}
	t.Visit.Asking = nil
	t.completeNode(hit.Value, map[string]any{
		"attempts": jsonNumber(0), "escalated": false, "repaired": false, "cached": true, "class": hit.Class, "item": q.chosen(hit.Value),
	})
	return true
}

// reuseCopy has the copy in which the answer was made stand for that of the current call, which needs none.
func (t callOp) reuseCopy(node *ir.Node, name string) {
	m := t.m
	if t.Visit.Call.Sprite != t.sprite() { // it was made, before the answer was there
		t.releaseCopy(node, false)
	}
	if node.KeepSprite && !slices.Contains(m.s.Kept, name) {
		m.s.Kept = append(m.s.Kept, name)
	}
}

// cacheAnswer keeps the value of c as the answer to the request of the current visit, if it may be taken by others.
func (t *thread) cacheAnswer(node *ir.Node, c Cached) {
	m := t.m
	if t.Visit.Key == "" {
		return
	}
	raw, err := ir.Marshal(c.Value)
	if err != nil || len(raw) > maxCachedBytes {
		return
	}
	c.Key, c.Node, c.Bytes = t.Visit.Key, node.ID, len(raw)
	m.s.Cache = append(m.s.Cache, c)
	total := 0
	for _, c := range m.s.Cache {
		total += c.Bytes
	}
	for total > maxCachedBytes || len(m.s.Cache) > maxCached {
		total -= m.s.Cache[0].Bytes
		m.s.Cache = m.s.Cache[1:]
	}
}

// invalidateCache forgets what depended on a sprite's files, which are or may be others now.
func (m *machine) invalidateCache(sprite string) {
	m.s.Cache = slices.DeleteFunc(m.s.Cache, func(c Cached) bool { return c.Sprite == sprite })
}

// answerPending reports whether another thread is about to be answered what t would ask.
func (t *thread) answerPending() bool {
	if t.Visit.Key == "" {
		return false
	}
	return slices.ContainsFunc(t.m.threads(), func(o *thread) bool {
		return o.path != t.path && o.Visit != nil && o.Visit.Key == t.Visit.Key && !slices.Contains(t.m.s.Held, o.path)
	})
}
