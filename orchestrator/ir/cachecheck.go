package ir

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
)

// checkCache checks the value of cache.
func (g *graph) checkCache(n *Node, ptr string) {
	if !slices.Contains([]string{"", "none", CacheRun}, n.Cache) {
		g.addError("cache_invalid", ptr+"/cache", Near(n.Cache, []string{"none", CacheRun}), "cache cannot be %q", n.Cache)
	}
}

// checkCallCache refuses to cache calls that have a side effect.
func (g *graph) checkCallCache(n *Node, skill manifests.Skill, ptr string) {
	class, _, exact := effectiveClass(skill, n.Args)
	if slices.Contains(classes, n.SideEffect) && isStricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	if n.Cache != CacheRun || !isStricter(class, manifests.ClassIdempotent) {
		return
	}
	const hint = "only calls of class read or idempotent can be cached"
	if exact {
		g.addError("cache_effect", ptr+"/cache", hint, "%s is of class %s: it has a side effect, so its results cannot be cached", n.Tool, class)
		return
	}
	g.addWarning("cache_effect", ptr+"/cache", hint, "with some arguments %s is of class %s; the results of such calls are not cached", n.Tool, class)
}
