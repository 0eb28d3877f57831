package check

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// checkCache checks the value of cache.
func (g *graph) checkCache(n *ir.Node, ptr string) {
	if !slices.Contains([]string{"", "none", ir.CacheRun}, n.Cache) {
		g.AddError("cache_invalid", ptr+"/cache", finding.Near(n.Cache, []string{"none", ir.CacheRun}), "cache cannot be %q", n.Cache)
	}
}

// checkCallCache refuses to cache calls that have a side effect.
func (g *graph) checkCallCache(n *ir.Node, skill manifests.Skill, ptr string) {
	class, _, exact := ir.EffectiveClass(skill, n.Args)
	if slices.Contains(ir.Classes, n.SideEffect) && ir.IsStricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	if n.Cache != ir.CacheRun || !ir.IsStricter(class, manifests.ClassIdempotent) {
		return
	}
	const hint = "only calls of class read or idempotent can be cached"
	if exact {
		g.AddError("cache_effect", ptr+"/cache", hint, "%s is of class %s: it has a side effect, so its results cannot be cached", n.Tool, class)
		return
	}
	g.AddWarning("cache_effect", ptr+"/cache", hint, "with some arguments %s is of class %s; the results of such calls are not cached", n.Tool, class)
}
