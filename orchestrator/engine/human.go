package engine

import (
	"fmt"
	"maps"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// startHuman begins an attempt of a HUMAN node: a wait on a boundary, without any exec (DESIGN 25).
func (m *machine) startHuman(node *ir.Node) {
	if sprite := m.sprite(); sprite != "" && m.s.Dirty[sprite] {
		m.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: sprite, Durable: m.s.Disk != ""})
		return
	}
	m.ask(node)
}

func (m *machine) ask(node *ir.Node) {
	inputs, f := m.inputs(node)
	if f != nil {
		m.fallTo(f)
		return
	}
	prompt := "approve " + node.ID + "?"
	if len(node.Prompt) > 0 {
		v, f := ir.Eval(node.Prompt, m.scope(nil))
		if f == nil {
			prompt, f = text(v)
		}
		if f != nil {
			m.fallTo(f)
			return
		}
	}
	w := lattice.Wait{
		Kind: lattice.WaitHuman, Prompt: prompt, Reason: node.ID, Choices: node.Choices,
		Expected: node.ExpectedInputs(), Details: details(inputs),
	}
	if len(node.Expected) == 0 && len(node.Choices) == 0 {
		w.Optional = []string{"comments"}
	}
	if pair, ok := m.s.Pairs[m.sprite()]; ok {
		w.CheckpointID = pair.CheckpointID
	}
	m.open(w)
	if node.TimeoutS > 0 {
		m.issue(lattice.Command{Kind: lattice.DoTimer, DelayS: node.TimeoutS})
	}
}

// unfit says why an answer does not fit the node's answer_schema; "" is that it does.
func (m *machine) unfit(node *ir.Node, answer any) string {
	schema := m.p.AnswerSchema(node)
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

func (m *machine) humanAnswered(w lattice.Wait, f lattice.Answered, inputs map[string]any) error {
	out := map[string]any{"approved": true, "comments": f.Comments}
	maps.Copy(out, inputs)
	if why := m.unfit(m.p.Node(w.Node), m.p.Judged(m.p.Node(w.Node), out)); why != "" && f.Decision != lattice.Reject {
		return fmt.Errorf("%w: %s does not take this answer: %s", ErrAnswer, w.Node, why)
	}
	m.closeWait(w)
	if f.Decision == lattice.Reject {
		bad := failure(ir.FailHumanRejected, "%s was rejected by %s", w.Node, f.By)
		if f.Comments != "" {
			bad.Message += ": " + f.Comments
		}
		bad.Data = details(map[string]any{"by": f.By, "comments": f.Comments})
		m.fallTo(bad)
		return nil
	}
	out["by"] = f.By
	m.finish(out)
	return nil
}

func (m *machine) humanTimeout(w lattice.Wait) {
	node := m.p.Node(w.Node)
	m.closeWait(w)
	if node.OnTimeout != "default" {
		m.fail(failure(ir.FailHumanTimeout, "nobody answered %s within %g seconds", node.ID, node.TimeoutS))
		return
	}
	out, f := ir.Eval(node.Answer, m.scope(nil))
	if f != nil {
		m.fallTo(f)
		return
	}
	if why := m.unfit(node, out); why != "" {
		m.fallTo(failure(ir.FailSchema, "the default answer of %s does not fit its answer_schema: %s", node.ID, why))
		return
	}
	m.finish(out)
}
