package ir

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// DefaultGrants is what a run may do when nobody said otherwise: everything but git:push, credential:fetch and net.
func DefaultGrants() []string {
	return slices.DeleteFunc(manifests.Permissions(), func(p string) bool {
		return p == "git:push" || p == "credential:fetch" || p == "net"
	})
}

// Preflight names every permission that the program's calls need and grants lack, one finding for each node, so that
// a person can grant or refuse all of them at once. "*" grants everything. Where an argument that is known only at run
// time decides, what it may ask for is a warning and the call itself is judged when it is made.
func (p *Program) Preflight(grants []string) []Finding {
	var r report
	if slices.Contains(grants, "*") {
		return nil
	}
	visit := func(n *Node, at string) {
		if n.Op != OpToolCall {
			return
		}
		sure, perhaps := needs(p.Tools[n.Tool], n.Args)
		at += "/tool"
		if m := missing(sure, grants); len(m) > 0 {
			r.error("permission_missing", at, "grant it: --allow "+strings.Join(m, ","), "%s: %s needs %s, which the run is not granted", n.ID, n.Tool, strings.Join(m, ", "))
		}
		if m := missing(perhaps, grants); len(m) > 0 {
			r.warn("permission_missing", at, "grant it: --allow "+strings.Join(m, ","), "%s: %s may need %s, which the run is not granted", n.ID, n.Tool, strings.Join(m, ", "))
		}
		if c := n.Compensate; c != nil {
			all, perhaps := needs(p.Tools[c.Tool], c.Args)
			if m := missing(append(all, perhaps...), grants); len(m) > 0 {
				r.error("permission_missing", strings.TrimSuffix(at, "/tool")+"/compensate/tool", "grant it: --allow "+strings.Join(m, ","), "%s: to take back what it did, %s needs %s, which the run is not granted", n.ID, c.Tool, strings.Join(m, ", "))
			}
		}
	}
	walk(p.Doc.Nodes, "", visit)
	for _, name := range slices.Sorted(maps.Keys(p.subs)) {
		walk(p.subs[name].Nodes, "/subgraphs/"+escapePointer(name)+"/document", visit)
	}
	return r.sorted()
}

// needs returns the permissions that a call certainly needs and those that it needs with some arguments.
func needs(skill manifests.Skill, args json.RawMessage) (sure, perhaps []string) {
	_, all, exact := effective(skill, args)
	if exact {
		return all, nil
	}
	for _, permission := range all {
		always := true
		for _, v := range skill.Variants.Cases {
			always = always && slices.Contains(v.Permissions, permission)
		}
		if always {
			sure = append(sure, permission)
		} else {
			perhaps = append(perhaps, permission)
		}
	}
	return sure, perhaps
}

func missing(wanted, grants []string) []string {
	var out []string
	for _, p := range wanted {
		if !slices.Contains(grants, p) {
			out = append(out, p)
		}
	}
	return out
}

// MissingCtx lists the members of $ctx that the document requires and ctx lacks.
func (p *Program) MissingCtx(ctx map[string]any) []string {
	var out []string
	for _, name := range p.Doc.CtxRequires {
		if _, ok := ctx[name]; !ok {
			out = append(out, name)
		}
	}
	return out
}
