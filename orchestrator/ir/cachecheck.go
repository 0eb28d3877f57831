package ir

import (
	"slices"

	"github.com/spritekit/lattice/manifests"
)

// checkCache checks the value of cache.
func (g *graph) checkCache(n *Node, ptr string) {
	if !slices.Contains([]string{"", "none", CacheRun}, n.Cache) {
		g.error("cache_invalid", ptr+"/cache", near(n.Cache, []string{"none", CacheRun}), "cache cannot be %q", n.Cache)
	}
}

// checkCallCache refuses to keep what a call answers that shall happen each time.
func (g *graph) checkCallCache(n *Node, skill manifests.Skill, ptr string) {
	class, _, exact := effective(skill, n.Args)
	if slices.Contains(classes, n.SideEffect) && stricter(n.SideEffect, class) {
		class = n.SideEffect
	}
	if n.Cache != CacheRun || !stricter(class, manifests.ClassIdempotent) {
		return
	}
	const hint = "calls of class read and idempotent may be answered from what is kept"
	if exact {
		g.error("cache_effect", ptr+"/cache", hint, "%s is of class %s: it is called each time, because each call does something", n.Tool, class)
		return
	}
	g.warn("cache_effect", ptr+"/cache", hint, "%s may be of class %s, by its arguments: such a call is made each time", n.Tool, class)
}
