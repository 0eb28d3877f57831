package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// CheckWorldCalls warns of each skill of class world for whose calls a run waits for approval, and of names in allowed, the
// setting world.allow, that no skill in tools has and that look like the name of another.
func (f *Flow) CheckWorldCalls(allowed []string, tools Tools) (found []finding.Finding) {
	calls := f.Program.WorldCalls(nil)
	for _, name := range allowed {
		hint := finding.Near(name, slices.Concat(calls, skillNames()))
		if _, known := tools(name); !known && !slices.Contains(calls, name) && strings.HasPrefix(hint, "did you mean") {
			found = append(found, finding.Finding{
				Code: "world_allow_unknown", Severity: finding.SeverityWarning,
				Message: fmt.Sprintf("there is no skill %q, which the setting world.allow names", name), Hint: hint,
			})
		}
	}
	for _, skill := range f.Program.UnplannedWorldCalls(nil) {
		if slices.Contains(allowed, skill) {
			continue
		}
		asks := finding.Finding{
			Code: "world_call_asks", Severity: finding.SeverityWarning,
			Message: fmt.Sprintf("%s acts outside of the sprite: the run waits for approval before each call", skill),
			Hint:    fmt.Sprintf("allow it for one run with lattice run --approve-world %s, or for all runs with the setting world.allow; or name the node in the approves of a HUMAN node before it", skill),
		}
		f.Program.Walk(func(n *ir.Node, _ int) {
			if asks.Node == "" && (n.Tool == skill || n.Compensate != nil && n.Compensate.Tool == skill) {
				asks.Node = n.ID
			}
		})
		found = append(found, asks)
	}
	return found
}
