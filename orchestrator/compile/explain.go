package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
)

// Explained describes a node to a person, before the flow runs.
type Explained struct {
	// The id of the node.
	ID string `json:"id"`
	// How many nodes are around it.
	Depth int `json:"depth"`
	// The op of the node.
	Op ir.Op `json:"op"`
	// What it does, a sentence.
	Does string `json:"does"`
	// The references that it reads.
	Reads []string `json:"reads"`
	// The places that it writes.
	Writes []string `json:"writes"`
	// The permissions that it needs.
	Needs []string `json:"needs"`
	// Who has to approve or answer, a sentence; "" is no one.
	Approval string `json:"approval"`
	// What follows, sentences.
	Next []string `json:"next"`
}

// Explain describes each node of a flow, in the order of the document.
func (f *Flow) Explain() []Explained {
	out := []Explained{}
	f.Program.Walk(func(n *ir.Node, depth int) {
		e := Explained{ID: n.ID, Depth: depth, Op: n.Op, Reads: n.Reads(), Writes: n.Writes(), Needs: []string{}, Next: f.describeEdges(n)}
		e.Does, e.Approval = f.describeNode(n)
		if n.Op == ir.OpToolCall {
			_, e.Needs = f.Program.Needs(n)
		}
		for _, list := range []*[]string{&e.Reads, &e.Writes, &e.Needs, &e.Next} {
			*list = append([]string{}, *list...)
		}
		out = append(out, e)
	})
	return out
}

// describeNode returns sentences about the effect of a node and about the person who has to approve it.
func (f *Flow) describeNode(n *ir.Node) (does, approval string) {
	switch n.Op {
	case ir.OpToolCall:
		does, approval = f.describeCall(n)
	case ir.OpHuman:
		does, approval = "Asks a person: "+exprText(n.Prompt), "A person approves or rejects it."
		switch {
		case len(n.Choices) > 0:
			approval = "A person chooses one of " + strings.Join(n.Choices, ", ") + "."
		case len(n.Expected) > 0:
			approval = "A person answers."
		}
		if len(n.Approves) > 0 {
			approval += " The approval also allows " + strings.Join(n.Approves, ", ") + " to act outside, with the inputs that the question shows."
		}
		if n.TimeoutS > 0 {
			how := "the node fails"
			if n.OnTimeout == "default" {
				how = "the default is used"
			}
			approval += fmt.Sprintf(" After %g s without an answer %s.", n.TimeoutS, how)
		}
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		does = f.describeModelCall(n)
	case ir.OpPack:
		does = "Packs values into one object."
	case ir.OpMerge:
		does = fmt.Sprintf("Merges %d values (%s).", len(n.From), n.Strategy)
	case ir.OpSwitch:
		var names []string
		for _, c := range n.Cases {
			names = append(names, c.Name)
		}
		does = "Chooses the first case that holds: " + strings.Join(names, ", ") + "."
	case ir.OpMap:
		does = fmt.Sprintf("Runs its body for each of %s, at most %d, %s.", exprText(n.Items), n.MaxItems, atOnce(f.Program.Width(n)))
	case ir.OpParallel:
		does = fmt.Sprintf("Runs %d branches, %s, %s.", len(n.Branches), atOnce(f.Program.Width(n)), map[string]string{
			"": "until all have succeeded", ir.JoinAll: "until all have succeeded", ir.JoinAny: "until one has succeeded", ir.JoinSettled: "until all have ended",
		}[n.Join])
	case ir.OpLoop:
		does = fmt.Sprintf("Repeats its body, at most %d times.", n.MaxIterations)
	case ir.OpSubgraph:
		name, _, _ := strings.Cut(n.Ref, "@")
		does = fmt.Sprintf("Runs the subgraph %s.", name)
	case ir.OpSet:
		does = "Sets values."
	case ir.OpEmit:
		does = "Records an event."
	case ir.OpWait:
		does = "Waits " + exprText(n.Seconds) + " s."
		if n.Seconds == nil {
			does = "Waits until " + exprText(n.At) + "."
		}
	case ir.OpFail:
		does = "Fails: " + exprText(n.Message)
	case ir.OpEnd:
		does = "Ends the run."
	default:
		does = string(n.Op) + "."
	}
	if n.ForksSprites() && n.Op != ir.OpToolCall {
		does += " Each has a copy of the sprite for itself."
	}
	if n.Cache == ir.CacheRun {
		does += " An equal call of the run is not made again."
	}
	if n.TimeoutS > 0 && n.Op != ir.OpHuman {
		does += fmt.Sprintf(" It takes at most %g s.", n.TimeoutS)
	}
	if n.Skip != nil {
		does += " It may be skipped."
	}
	if len(n.Retry) > 0 {
		does += " It is tried again on " + strings.Join(n.Retry[0].On, ", ") + "."
	}
	return does, approval
}

func atOnce(n int) string {
	if n == 1 {
		return "one at a time"
	}
	return fmt.Sprintf("%d at once", n)
}

// describeCall says what a TOOL_CALL does.
func (f *Flow) describeCall(n *ir.Node) (does, approval string) {
	class, needs := f.Program.Needs(n)
	does = fmt.Sprintf("Calls %s, which %s.", n.Tool, map[manifests.Class]string{
		manifests.ClassRead:       "only reads",
		manifests.ClassIdempotent: "may be repeated without harm",
		manifests.ClassSprite:     "changes files of the sprite",
		manifests.ClassWorld:      "changes something outside, and is never repeated unasked",
	}[manifests.Class(class)])
	if n.ForksSprites() {
		does += " It runs in a copy of the sprite, and what it writes there stays there."
	}
	if n.Compensate != nil {
		does += fmt.Sprintf(" If the run fails later on, %s takes it back.", n.Compensate.Tool)
	}
	switch {
	case manifests.Class(class) == manifests.ClassWorld:
		approval = "It acts outside; a person approves each call, unless lattice run --approve-world " + n.Tool + " or the setting world.allow names it."
		if by := f.Program.ApproversOf(n.ID); len(by) > 0 {
			approval = "It acts outside; the approval at " + strings.Join(by, " or ") + " allows it with the inputs shown there. With other inputs, or after another call may have changed files, a person approves it again."
		}
	case n.Tool == "ask.user":
		approval = "A person answers."
	case slices.ContainsFunc(asking, func(p string) bool { return slices.Contains(needs, p) }):
		approval = "It asks for what happens outside; a person approves that unless the policy does."
	}
	return does, approval
}

// asking are permissions of skills whose effect needs someone outside the sprite.
var asking = []string{"git:push", "github:write", "credential:fetch", "env:propose"}

// describeModelCall says what an LLM_… node does.
func (f *Flow) describeModelCall(n *ir.Node) string {
	what := map[ir.Op]string{
		ir.OpLLMExtract: "to extract", ir.OpLLMClassify: "to classify", ir.OpLLMChoose: "to choose", ir.OpLLMWrite: "to write",
	}[n.Op]
	text := fmt.Sprintf("Asks the model %s %s, by the template %s", n.ModelClass, what, n.PromptTemplate)
	if n.RetryPolicy != nil && n.RetryPolicy.MaxAttempts > 1 {
		text += fmt.Sprintf(", at most %d times", n.RetryPolicy.MaxAttempts)
	}
	for _, e := range n.Escalation {
		text += fmt.Sprintf(", then %s on %s", e.ToClass, strings.Join(e.On, ", "))
	}
	return text + "; the answer must fit " + n.OutputSchema + "."
}

// describeEdges says where a node leads.
func (f *Flow) describeEdges(n *ir.Node) []string {
	var out []string
	edges := f.Program.Out(n.ID)
	for _, e := range edges {
		name, isCase := e.When.IsCase()
		switch {
		case isCase:
			out = append(out, fmt.Sprintf("%s in the case %s", e.To, name))
		case e.When.IsOtherwise():
			out = append(out, e.To+" otherwise")
		case e.When.IsAlways():
			out = append(out, e.To)
		default:
			out = append(out, e.To+" if its condition holds")
		}
	}
	for _, c := range n.Catch {
		out = append(out, fmt.Sprintf("%s on %s", c.To, strings.Join(c.On, ", ")))
	}
	return out
}

// exprText is a value expression for people: a text joined of parts reads as one, with the references in it.
func exprText(text json.RawMessage) string {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	var joined struct {
		Concat []json.RawMessage `json:"concat"`
	}
	if json.Unmarshal(text, &joined) == nil && len(joined.Concat) > 0 {
		for _, part := range joined.Concat {
			s += exprText(part)
		}
		return s
	}
	return string(text)
}

// Sentences formats the result of Explain for a terminal.
func (e Explained) Sentences() string {
	var b strings.Builder
	indent := strings.Repeat("    ", e.Depth)
	line := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	line("%s: %s", e.ID, e.Does)
	for _, part := range []struct {
		name  string
		items []string
	}{{"Reads", e.Reads}, {"Writes", e.Writes}, {"Needs", e.Needs}, {"Then", e.Next}} {
		if len(part.items) > 0 {
			line("    %s %s.", part.name, strings.Join(part.items, ", "))
		}
	}
	if e.Approval != "" {
		line("    %s", e.Approval)
	}
	return b.String()
}
