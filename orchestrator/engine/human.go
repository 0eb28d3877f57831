package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// humanOp is a HUMAN node: a question to a person.
type humanOp struct{ *thread }

func (t humanOp) answered(node *ir.Node, c lattice.Command, f lattice.Fact) error {
	switch f.(type) {
	case lattice.BoundaryTaken:
		t.openQuestion(node)
	case lattice.TimerFired:
		i := slices.IndexFunc(t.m.s.Waits, func(w lattice.Wait) bool { return w.Path == t.path })
		t.questionTimedOut(t.m.s.Waits[i])
	default:
		return unexpected(c, f)
	}
	return nil
}

// begin begins an attempt of a HUMAN node: a wait on a boundary, without any exec (DESIGN 25).
func (t humanOp) begin(node *ir.Node) {
	if sprite := t.sprite(); sprite != "" && t.m.s.Dirty[sprite] {
		t.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: sprite, Durable: t.m.s.Disk != ""})
		return
	}
	t.openQuestion(node)
}

func (t humanOp) openQuestion(node *ir.Node) {
	inputs, f := t.evalInputs(node)
	if f != nil {
		t.failVisit(f)
		return
	}
	prompt := "approve " + node.ID + "?"
	if len(node.Prompt) > 0 {
		v, f := ir.Eval(node.Prompt, t.scope(nil))
		if f == nil {
			prompt, f = formatText(v)
		}
		if f != nil {
			t.failVisit(f)
			return
		}
	}
	w := lattice.Wait{
		Kind: lattice.WaitHuman, Prompt: prompt, Reason: node.ID, Choices: node.Choices,
		Expected: node.ExpectedInputs(), Details: encodeDetails(inputs),
	}
	if len(node.Expected) == 0 && len(node.Choices) == 0 {
		w.Optional = []string{"comments"}
	}
	if pair, ok := t.m.s.Pairs[t.sprite()]; ok {
		w.CheckpointID = pair.CheckpointID
	}
	t.openWait(w)
	if node.TimeoutS > 0 {
		t.issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// explainMisfit says why an answer does not fit the node's answer_schema, "" if it does.
func (t humanOp) explainMisfit(node *ir.Node, answer any) string {
	schema := t.m.p.AnswerSchema(node)
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

// decided takes a person's answer to the question of the node.
func (t humanOp) decided(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	m := t.m
	out := map[string]any{"approved": true, "comments": f.Comments}
	maps.Copy(out, inputs)
	if why := t.explainMisfit(m.p.Node(w.Node), m.p.Judged(m.p.Node(w.Node), out)); why != "" && f.Decision != lattice.Reject {
		return fmt.Errorf("%w: %s does not take this answer: %s", ErrAnswer, w.Node, why)
	}
	t.closeWait(w)
	if f.Decision == lattice.Reject {
		bad := newFailure(ir.FailHumanRejected, "%s was rejected by %s", w.Node, f.By)
		if f.Comments != "" {
			bad.Message += ": " + f.Comments
		}
		bad.Data = encodeDetails(map[string]any{"by": f.By, "comments": f.Comments})
		t.failVisit(bad)
		return nil
	}
	out["by"] = f.By
	t.completeNode(out, nil)
	return nil
}

func (t humanOp) questionTimedOut(w lattice.Wait) {
	node := t.m.p.Node(w.Node)
	t.closeWait(w)
	if node.OnTimeout != "default" {
		t.failAttempt(newFailure(ir.FailHumanTimeout, "nobody answered %s within %g seconds", node.ID, node.TimeoutS))
		return
	}
	out, f := ir.Eval(node.Answer, t.scope(nil))
	if f != nil {
		t.failVisit(f)
		return
	}
	if why := t.explainMisfit(node, out); why != "" {
		t.failVisit(newFailure(ir.FailSchema, "the default answer of %s does not fit its answer_schema: %s", node.ID, why))
		return
	}
	t.completeNode(out, nil)
}
