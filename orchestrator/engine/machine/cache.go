package machine

import (
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Bounds of the cache of one run.
const (
	maxCached      = 256
	maxCachedBytes = 256 << 10
)

// CachedAnswer returns the answer to the same request, if there is one, and records that the node takes it.
func (t *Thread) CachedAnswer(node *ir.Node) (runstate.Cached, bool) {
	m := t.Run
	v := t.Visit
	i := slices.IndexFunc(m.State.Cache, func(c runstate.Cached) bool { return c.Key == v.Key })
	if v.Key == "" || i < 0 {
		return runstate.Cached{}, false
	}
	hit := m.State.Cache[i]
	v.Key = ""
	m.State.Emitted = append(m.State.Emitted, runstate.Emitted{Key: t.VisitKey("cache"), Node: node.ID, Info: map[string]any{
		"kind": "cache_hit", "message": fmt.Sprintf("%s takes the answer of %s from the cache", node.ID, hit.Node),
		"metadata": map[string]any{"node": node.ID, "from": hit.Node, "key": hit.Key},
	}})
	return hit, true
}

// CacheAnswer keeps the value of c as the answer to the request of the current visit, if it may be taken by others.
func (t *Thread) CacheAnswer(node *ir.Node, c runstate.Cached) {
	m := t.Run
	if t.Visit.Key == "" {
		return
	}
	raw, err := expr.Marshal(c.Value)
	if err != nil || len(raw) > maxCachedBytes {
		return
	}
	c.Key, c.Node, c.Bytes = t.Visit.Key, node.ID, len(raw)
	m.State.Cache = append(m.State.Cache, c)
	total := 0
	for _, c := range m.State.Cache {
		total += c.Bytes
	}
	for total > maxCachedBytes || len(m.State.Cache) > maxCached {
		total -= m.State.Cache[0].Bytes
		m.State.Cache = m.State.Cache[1:]
	}
}

// InvalidateCache removes the results that depend on the files of a sprite, which may have changed.
func (m *Machine) InvalidateCache(sprite string) {
	m.State.Cache = slices.DeleteFunc(m.State.Cache, func(c runstate.Cached) bool { return c.Sprite == sprite })
}

// answerPending reports whether the same request is under way in another thread.
func (t *Thread) answerPending() bool {
	if t.Visit.Key == "" {
		return false
	}
	return slices.ContainsFunc(t.Run.threads(), func(o *Thread) bool {
		return o.Path != t.Path && o.Visit != nil && o.Visit.Key == t.Visit.Key && !slices.Contains(t.Run.State.Held, o.Path)
	})
}
