package machine

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// enterNode enters a node: a new visit, its first attempt.
func (t *Thread) enterNode(id string) {
	m := t.Run
	t.Node = id
	node := m.Program.Node(id)
	if node == nil {
		m.Err = fmt.Errorf("program has no node %q", id)
		return
	}
	if !m.CountStep() {
		return
	}
	t.Visits[id]++
	t.Visit = &runstate.Visit{Number: t.Visits[id], Attempt: 1, Retries: make([]int, len(node.Retry))}
	if node.Skip != nil {
		skip, f := node.Skip.True(t.Scope(nil))
		switch {
		case f != nil:
			f.Message = "when_skip: " + f.Message
			t.FailVisit(f)
			return
		case skip:
			t.FollowEdge(node, nil)
			return
		}
	}
	m.State.Started = append(m.State.Started, path.Join(t.Path, id))
	t.startAttempt()
}

// CountStep ends the run when max_steps is used up: no catch can extend it.
func (m *Machine) CountStep() bool {
	if m.State.Undoing != nil {
		return true
	}
	m.State.Steps++
	if m.State.Steps <= m.maxSteps() {
		return true
	}
	m.endRun(lattice.Failed, Failf(expr.FailLimit, "the run needs more than its %d steps", m.maxSteps()))
	return false
}

// startAttempt makes the current attempt at the current node.
func (t *Thread) startAttempt() {
	node := t.Run.Program.Node(t.Node)
	op := t.operation()
	if op == nil {
		t.Run.Err = fmt.Errorf("node %s has an op %q that this version does not run", node.ID, node.Op)
		return
	}
	op.Begin(node)
}

// EvalInputs evaluates and projects the input ports of a node.
func (t *Thread) EvalInputs(node *ir.Node) (map[string]any, *expr.Failure) {
	out := make(map[string]any, len(node.Inputs))
	for _, port := range slices.Sorted(maps.Keys(node.Inputs)) {
		v, f := expr.Eval(node.Inputs[port], t.Scope(nil))
		if pick := node.Projection[port]; f == nil && len(pick) > 0 {
			v, f = expr.Project(v, pick)
		}
		if f != nil {
			f.Message = fmt.Sprintf("input %s: %s", port, f.Message)
			return nil, f
		}
		out[port] = v
	}
	return out, nil
}

// FollowEdge follows the first edge whose condition holds. An edge that used up its max_traversals counts as false, so that
// a loop falls through to the edge after it.
func (t *Thread) FollowEdge(node *ir.Node, out any) {
	edges := t.Run.Program.Out(node.ID)
	if len(edges) == 0 {
		t.CompleteThread(node, out)
		return
	}
	spent := false
	for i, e := range edges {
		ok, f := testEdge(e, out, t.Scope)
		if f != nil {
			t.FailVisit(f)
			return
		}
		if !ok {
			continue
		}
		if e.MaxTraversals > 0 {
			key := fmt.Sprintf("%s→%s#%d", e.From, e.To, i)
			if t.Traversals[key] >= e.MaxTraversals {
				spent = true
				continue
			}
			t.Traversals[key]++
		}
		t.Schedule(e.To)
		return
	}
	if spent {
		t.FailVisit(Failf(expr.FailLimit, "an edge out of %s used up its max_traversals and no other edge is true", node.ID))
		return
	}
	t.FailVisit(Failf(expr.FailNoEdge, "no edge out of %s is true", node.ID))
}

// testEdge reports whether the condition of an edge holds for the output of its node.
func testEdge(e ir.Edge, out any, scope func(out any) expr.Scope) (bool, *expr.Failure) {
	if e.When == nil {
		return true, nil
	}
	if name, ok := e.When.IsCase(); ok {
		o, _ := out.(map[string]any)
		return o["case"] == name, nil
	}
	return e.When.True(scope(out))
}

// CompleteThread ends the current thread behind its last node.
func (t *Thread) CompleteThread(node *ir.Node, out any) {
	if t.up != nil {
		t.completeIteration(node, out)
		return
	}
	t.completeRun(node, out)
}

// completeRun ends the run behind its last node, whose output counts only when it is an END that says one.
func (t *Thread) completeRun(node *ir.Node, last any) {
	m := t.Run
	var out any = m.State.Vars
	if node.Op == ir.OpEnd && node.Output != nil {
		out = last
	} else if len(m.Program.Doc.Output) > 0 {
		v, f := expr.Eval(m.Program.Doc.Output, t.Scope(nil))
		if f != nil {
			f.Message = "output of the run: " + f.Message
			m.endRun(lattice.Failed, f)
			return
		}
		out = v
	}
	m.endRun(lattice.Succeeded, nil)
	m.State.Output = out
}

// FailAttempt ends the current attempt with f: retry, else catch, else the run fails.
func (t *Thread) FailAttempt(f *expr.Failure) {
	m := t.Run
	if m.State.Undoing != nil {
		undoing{m}.endUndo(f)
		return
	}
	node, v := m.Program.Node(t.Node), t.Visit
	for i, rule := range node.Retry {
		if !CoversKind(rule.On, f.Kind) {
			continue
		}
		attempts := cmp.Or(rule.MaxAttempts, 4)
		if v.Retries[i]+1 >= attempts {
			break
		}
		delay := retryDelay(rule, v.Retries[i], t.VisitKey("jitter", strconv.Itoa(i), strconv.Itoa(v.Retries[i])))
		v.Retries[i]++
		v.Suspended, v.Map, v.Key = nil, nil, ""
		t.Issue(lattice.Command{Kind: lattice.DoTimer, DelayS: delay})
		return
	}
	t.FailVisit(f)
}

// retryDelay returns the pause before the next attempt under a rule, in seconds. The key seeds the jitter.
func retryDelay(rule ir.Retry, retries int, key string) float64 {
	const day = 24 * 60 * 60
	interval, rate := rule.IntervalS, rule.BackoffRate
	interval = cmp.Or(interval, 1)
	rate = cmp.Or(rate, 2)
	for range retries {
		interval = min(interval*rate, day)
	}
	if rule.MaxDelayS > 0 {
		interval = min(interval, rule.MaxDelayS)
	}
	if rule.Jitter == "full" {
		sum := sha256.Sum256([]byte(key))
		interval *= float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
	}
	return interval
}

// FailVisit ends the current visit with f without another attempt: catch, else the run fails. Failures after a node did
// its work come here directly, because a retry would do the work twice.
func (t *Thread) FailVisit(f *expr.Failure) {
	m := t.Run
	if m.State.Undoing != nil {
		undoing{m}.endUndo(f)
		return
	}
	node, v := m.Program.Node(t.Node), t.Visit
	f.Node, f.Attempt = node.ID, v.Attempt
	for _, c := range node.Catch {
		if !CoversKind(c.On, f.Kind) {
			continue
		}
		caught := EncodeFailure(f)
		if c.Bind != "" {
			if bad := t.WriteAll(Write{c.Bind, caught}); bad != nil {
				t.failThread(bad)
				return
			}
		}
		t.Err = caught
		t.Schedule(c.To)
		return
	}
	t.failThread(f)
}

// EncodeFailure is a failure as catch binds it.
func EncodeFailure(f *expr.Failure) map[string]any {
	c := map[string]any{"kind": f.Kind, "message": f.Message, "node": f.Node, "attempt": Number(f.Attempt), "data": nil}
	if data, err := expr.Decode(f.Data); len(f.Data) > 0 && err == nil {
		c["data"] = data
	}
	return c
}

// failThread ends the current thread with f, which nothing in it catches.
func (t *Thread) failThread(f *expr.Failure) {
	if t.up != nil {
		t.failIteration(f)
		return
	}
	undoing{t.Run}.startUndo(f)
}

// CoversKind reports whether a retry or catch rule covers kind. ALL does not cover limits and cancellation, which must not be swallowed.
func CoversKind(on []string, kind string) bool {
	if slices.Contains(on, kind) {
		return true
	}
	return slices.Contains(on, "ALL") && kind != expr.FailLimit && kind != expr.FailCancelled
}

// Scope returns the values that references see. out is the output of the node that is being left, or nil.
func (t *Thread) Scope(out any) expr.Scope {
	m := t.Run
	s := expr.Scope{Vars: m.State.Vars, Tmp: t.Tmp, Ctx: m.State.Ctx, In: m.State.In, Out: out, Err: t.Err}
	if f := t.frame(); f != nil {
		s.Vars, s.In = f.Vars, f.In
	}
	for at := t; at.Iteration != nil; at = at.up {
		op := m.Program.Node(at.up.Node).Op
		if op == ir.OpMap || op == ir.OpLoop {
			return s.WithItem(at.Iteration.Item, at.Iteration.Index)
		}
		if op == ir.OpSubgraph {
			break
		}
	}
	return s
}

// VisitKey derives an id that belongs to this visit of this node in this iteration alone.
func (t *Thread) VisitKey(parts ...string) string { return t.keyIn(t.Run.State.Epoch, parts...) }

// EffectKey is the idempotency key of this visit's effect. A loss of power does not change it: the effect is the same one.
func (t *Thread) EffectKey(kind string) string {
	return t.keyIn(t.Run.State.Epoch-t.Run.State.Losses, kind)
}

func (t *Thread) keyIn(epoch int, parts ...string) string {
	visit := 0
	if t.Visit != nil {
		visit = t.Visit.Number
	}
	if t.Path != "" {
		parts = append(parts, "@"+t.Path)
	}
	return lattice.DerivedKey(append([]string{t.Run.State.RunID, strconv.Itoa(epoch), t.Node, strconv.Itoa(visit)}, parts...)...)
}

// CompleteNode completes the current node with its output: all its writes or none, then the edge to the next node.
func (t *Thread) CompleteNode(out any, ports map[string]any) {
	m := t.Run
	if m.State.Undoing != nil {
		undoing{m}.endUndo(nil)
		return
	}
	node := m.Program.Node(t.Node)
	writes := make([]Write, 0, len(node.Outputs))
	for _, port := range slices.Sorted(maps.Keys(node.Outputs)) {
		v, f := ReadPort(m.Program, node, port, out, ports)
		if f != nil {
			t.FailVisit(f)
			return
		}
		writes = append(writes, Write{node.Outputs[port], v})
	}
	if f := t.WriteAll(writes...); f != nil {
		t.FailVisit(f)
		return
	}
	t.recordUndo(node, out)
	t.FollowEdge(node, out)
}
