package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// humanOp is the operation of HUMAN: a question to a person.
type humanOp struct{ *machine.Thread }

func (t humanOp) Answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	switch f.(type) {
	case lattice.BoundaryTaken:
		t.openQuestion(node)
	case lattice.TimerFired:
		i := slices.IndexFunc(t.Run.State.Waits, func(w lattice.Wait) bool { return w.Path == t.Path })
		t.questionTimedOut(t.Run.State.Waits[i])
	default:
		return unexpectedFact(c, f)
	}
	return nil
}

// Begin begins an attempt of a HUMAN node: a wait on a boundary, without any exec (DESIGN 25).
func (t humanOp) Begin(node *ir.Node) {
	if sprite := t.Sprite(); sprite != "" && t.Run.State.Dirty[sprite] {
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: sprite, Durable: t.Run.State.Disk != ""})
		return
	}
	t.openQuestion(node)
}

func (t humanOp) openQuestion(node *ir.Node) {
	inputs, f := t.EvalInputs(node)
	if f != nil {
		t.FailVisit(f)
		return
	}
	prompt := "approve " + node.ID + "?"
	if len(node.Prompt) > 0 {
		v, f := expr.Eval(node.Prompt, t.Scope(nil))
		if f == nil {
			prompt, f = formatText(v)
		}
		if f != nil {
			t.FailVisit(f)
			return
		}
	}
	w := lattice.Wait{
		Kind: lattice.WaitHuman, Prompt: prompt, Reason: node.ID, Choices: node.Choices,
		Expected: node.ExpectedInputs(), Details: encodeDetails(inputs),
	}
	if len(node.Expected) == 0 && len(node.Choices) == 0 {
		w.Optional = []string{"comments"}
	} else {
		w.Optional = t.Run.Program.OptionalInputs(node)
	}
	w.Calls = t.planCalls(node)
	if pair, ok := t.Run.State.Pairs[t.Sprite()]; ok {
		w.CheckpointID = pair.CheckpointID
	}
	t.OpenWait(w)
	if node.TimeoutS > 0 {
		t.Issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// explainMismatch says why an answer does not fit the node's answer_schema, "" if it does.
func (t humanOp) explainMismatch(node *ir.Node, answer any) string {
	schema := t.Run.Program.AnswerSchema(node)
	if schema == nil {
		return ""
	}
	problems, err := ladder.Fit(schema, answer)
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, p := range problems {
		said = append(said, strings.TrimSpace(p.Path+" "+p.Message))
	}
	return strings.Join(said, "; ")
}

// Decided takes a person's answer to the question of the node.
func (t humanOp) Decided(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	m := t.Run
	out := map[string]any{"approved": true, "comments": f.Comments}
	maps.Copy(out, inputs)
	if why := t.explainMismatch(m.Program.Node(w.Node), m.Program.Judged(m.Program.Node(w.Node), out)); why != "" && f.Decision != lattice.Reject {
		return fmt.Errorf("%w: %s does not take this answer: %s", machine.ErrAnswer, w.Node, why)
	}
	t.CloseWait(w)
	if f.Decision == lattice.Reject {
		bad := machine.Failf(expr.FailHumanRejected, "%s was rejected by %s", w.Node, f.By)
		if f.Comments != "" {
			bad.Message += ": " + f.Comments
		}
		bad.Data = encodeDetails(map[string]any{"by": f.By, "comments": f.Comments})
		t.FailVisit(bad)
		return nil
	}
	if f.Decision == lattice.Approve {
		for _, c := range w.Calls {
			m.State.Planned = append(m.State.Planned, runstate.Planned{PlannedCall: c, Path: w.Path, By: w.Node})
		}
	}
	for _, name := range w.Optional { // so that a later reference reads null, and not the answer of an earlier visit
		if _, given := out[name]; !given {
			out[name] = nil
		}
	}
	out["by"] = f.By
	t.CompleteNode(out, nil)
	return nil
}

func (t humanOp) questionTimedOut(w lattice.Wait) {
	node := t.Run.Program.Node(w.Node)
	t.CloseWait(w)
	if node.OnTimeout != "default" {
		t.FailAttempt(machine.Failf(expr.FailHumanTimeout, "%s was not answered within %g seconds", node.ID, node.TimeoutS))
		return
	}
	out, f := expr.Eval(node.Answer, t.Scope(nil))
	if f != nil {
		t.FailVisit(f)
		return
	}
	if why := t.explainMismatch(node, out); why != "" {
		t.FailVisit(machine.Failf(expr.FailSchema, "the default answer of %s does not fit its answer_schema: %s", node.ID, why))
		return
	}
	t.CompleteNode(out, nil)
}
