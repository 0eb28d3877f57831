package runs

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// warnOfTests says that the run's first tests will fail because nothing in the repository tells how it is tested. It looks
// only at repositories on this machine, and only for calls that say nothing about it themselves.
func (rn *Starter) warnOfTests(ctx context.Context, p *ir.Program, input json.RawMessage, o api.Options) []string {
	if o.Repo == "" || o.IncludeUncommitted || o.Sprite != "" && !o.OwnSprite {
		return nil
	}
	in, err := expr.Decode(input)
	if err != nil {
		return nil
	}
	asks := ""
	p.Walk(func(n *ir.Node, _ int) {
		if asks == "" && n.Tool == "test.run" && findsOut(n, in) {
			asks = n.ID
		}
	})
	if asks == "" {
		return nil
	}
	names, err := rn.Git.Names(ctx, o.Repo, o.Ref)
	if err != nil || len(names) == 0 || slices.ContainsFunc(names, manifests.SuggestsTests) {
		return nil // what cannot be read here is refused, or found out in the sprite
	}
	return []string{asks + " will not find out how the repository is tested: nothing in it tells; name the command, such as --input test_command='make test' for the built-in flows, or add .spritekit/test.json"}
}

// findsOut reports whether the call of a node leaves it to test.run to find out how the project is tested.
func findsOut(n *ir.Node, input any) bool {
	members, _, err := ir.ArgMembers(n.Args)
	if err != nil || members == nil && len(n.Args) > 0 {
		return false
	}
	for _, name := range []string{"command", "framework"} {
		member, given := members[name]
		if !given {
			continue
		}
		text, err := json.Marshal(member)
		if err != nil {
			return false
		}
		if v, f := expr.Eval(text, expr.Scope{In: input}); f != nil || v != nil {
			return false // given, or known only later
		}
	}
	return true
}
