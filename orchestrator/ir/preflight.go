package ir

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// DefaultGrants are the permissions of a run without others: everything but git:push, credential:fetch and net.
func DefaultGrants() []string {
	return slices.DeleteFunc(manifests.Permissions(), func(p string) bool {
		return p == "git:push" || p == "credential:fetch" || p == "net"
	})
}

// Preflight reports every permission that the program's calls need and grants does not contain, with one finding for each
// node, so that a person can grant or refuse all of them at once. "*" grants everything. If the permissions depend on an
// argument that is known only at run time, the finding is a warning and the call is checked when it is made.
func (p *Program) Preflight(grants []string) []finding.Finding {
	var r finding.Report
	if slices.Contains(grants, "*") {
		return nil
	}
	visit := func(n *Node, at string) {
		if n.Op != OpToolCall {
			return
		}
		sure, perhaps := neededPermissions(p.Tools[n.Tool], n.Args)
		found := func(add func(code, ptr, hint, format string, args ...any), at, format, tool string, missing []string) {
			if len(missing) > 0 {
				list := strings.Join(missing, ", ")
				add("permission_missing", at, "grant it: --allow "+strings.Join(missing, ","), format, tool, list)
				r.Findings[len(r.Findings)-1].Node = n.ID
			}
		}
		found(r.AddError, at+"/tool", "%s needs %s, which the run is not granted", n.Tool, missingFrom(sure, grants))
		found(r.AddWarning, at+"/tool", "%s may need %s, which the run is not granted", n.Tool, missingFrom(perhaps, grants))
		if c := n.Compensate; c != nil {
			all, perhaps := neededPermissions(p.Tools[c.Tool], c.Args)
			found(r.AddError, at+"/compensate/tool", "the compensation %s needs %s, which the run is not granted", c.Tool, missingFrom(append(all, perhaps...), grants))
		}
	}
	WalkNodes(p.Doc.Nodes, "", visit)
	for _, name := range slices.Sorted(maps.Keys(p.subs)) {
		WalkNodes(p.subs[name].Nodes, "/subgraphs/"+finding.EscapePointer(name)+"/document", visit)
	}
	return r.SortedFindings()
}

// neededPermissions returns the permissions that a call certainly needs and those that it needs with some arguments.
func neededPermissions(skill manifests.Skill, args json.RawMessage) (sure, perhaps []string) {
	_, all, exact := EffectiveClass(skill, args)
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

func missingFrom(wanted, grants []string) []string {
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
