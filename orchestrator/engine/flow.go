package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// begin enters a node: a new visit, its first attempt.
func (m *machine) begin(id string) {
	m.at.Node = id
	node := m.p.Node(id)
	if node == nil {
		m.err = fmt.Errorf("program has no node %q", id)
		return
	}
	if !m.countStep() {
		return
	}
	m.at.Visits[id]++
	m.at.Visit = &Visit{Number: m.at.Visits[id], Attempt: 1, Retries: make([]int, len(node.Retry))}
	if node.Skip != nil {
		skip, f := node.Skip.True(m.scope(nil))
		switch {
		case f != nil:
			f.Message = "when_skip: " + f.Message
			m.fallTo(f)
			return
		case skip:
			m.leave(node, nil)
			return
		}
	}
	m.s.Started = append(m.s.Started, path.Join(m.at.path, id))
	m.attempt()
}

// countStep ends the run when max_steps is used up: no catch can extend it.
func (m *machine) countStep() bool {
	if m.s.Undoing != nil {
		return true
	}
	m.s.Steps++
	if m.s.Steps <= m.maxSteps() {
		return true
	}
	m.end(lattice.Failed, failure(ir.FailLimit, "the run needs more than its %d steps", m.maxSteps()))
	return false
}

// attempt makes the current attempt at the current node.
func (m *machine) attempt() {
	node := m.p.Node(m.at.Node)
	switch node.Op {
	case ir.OpToolCall:
		m.startCall(node)
	case ir.OpPack:
		m.pack(node)
	case ir.OpSwitch:
		m.choose(node)
	case ir.OpHuman:
		m.startHuman(node)
	case ir.OpMerge:
		m.merge(node)
	case ir.OpMap:
		m.startMap(node)
	case ir.OpParallel:
		m.startParallel(node)
	case ir.OpLoop:
		m.startLoop(node)
	case ir.OpSubgraph:
		m.startSubgraph(node)
	case ir.OpSet:
		m.set(node)
	case ir.OpEmit:
		m.emit(node)
	case ir.OpWait:
		m.startWait(node)
	case ir.OpFail:
		m.giveCause(node)
	case ir.OpEnd:
		m.endHere(node)
	case ir.OpLLMExtract, ir.OpLLMClassify, ir.OpLLMChoose, ir.OpLLMWrite:
		m.startLLM(node)
	default:
		m.err = fmt.Errorf("node %s has an op %q that this version does not run", node.ID, node.Op)
	}
}

func (m *machine) pack(node *ir.Node) {
	out, f := m.inputs(node)
	if f != nil {
		m.fallTo(f)
		return
	}
	m.finish(out)
}

func (m *machine) merge(node *ir.Node) {
	inputs := make([]any, len(node.From))
	for i := range inputs {
		v, f := ir.Eval(node.From[i], m.scope(nil))
		if f != nil {
			f.Message = fmt.Sprintf("input %d: %s", i, f.Message)
			m.fallTo(f)
			return
		}
		inputs[i] = v
	}
	out, f := node.Merge(inputs)
	if f != nil {
		m.fallTo(f)
		return
	}
	m.finish(out)
}

// inputs evaluates and projects the input ports of a node.
func (m *machine) inputs(node *ir.Node) (map[string]any, *ir.Failure) {
	out := make(map[string]any, len(node.Inputs))
	for _, port := range slices.Sorted(maps.Keys(node.Inputs)) {
		v, f := ir.Eval(node.Inputs[port], m.scope(nil))
		if pick := node.Projection[port]; f == nil && len(pick) > 0 {
			v, f = ir.Project(v, pick)
		}
		if f != nil {
			f.Message = fmt.Sprintf("input %s: %s", port, f.Message)
			return nil, f
		}
		out[port] = v
	}
	return out, nil
}

func (m *machine) choose(node *ir.Node) {
	chosen := node.Default
	for _, c := range node.Cases {
		ok, f := c.When.True(m.scope(nil))
		if f != nil {
			m.fallTo(f)
			return
		}
		if ok {
			chosen = c.Name
			break
		}
	}
	if chosen == "" {
		m.fallTo(failure(ir.FailNoEdge, "no case of %s is true and there is no default", node.ID))
		return
	}
	m.finish(map[string]any{"case": chosen})
}

// leave follows the first edge whose condition holds. An edge that used up its max_traversals counts as false, so that
// a loop falls through to what comes after it.
func (m *machine) leave(node *ir.Node, out any) {
	edges := m.p.Out(node.ID)
	if len(edges) == 0 {
		m.complete(node, out)
		return
	}
	spent := false
	for i, e := range edges {
		ok, f := m.holds(e, out)
		if f != nil {
			m.fallTo(f)
			return
		}
		if !ok {
			continue
		}
		if e.MaxTraversals > 0 {
			key := fmt.Sprintf("%s→%s#%d", e.From, e.To, i)
			if m.at.Traversals[key] >= e.MaxTraversals {
				spent = true
				continue
			}
			m.at.Traversals[key]++
		}
		m.goTo(e.To)
		return
	}
	if spent {
		m.fallTo(failure(ir.FailLimit, "an edge out of %s used up its max_traversals and no other edge is true", node.ID))
		return
	}
	m.fallTo(failure(ir.FailNoEdge, "no edge out of %s is true", node.ID))
}

func (m *machine) holds(e ir.Edge, out any) (bool, *ir.Failure) {
	if e.When == nil {
		return true, nil
	}
	if name, ok := e.When.IsCase(); ok {
		o, _ := out.(map[string]any)
		return o["case"] == name, nil
	}
	return e.When.True(m.scope(out))
}

// complete ends the current thread behind its last node.
func (m *machine) complete(node *ir.Node, out any) {
	if m.at.up != nil {
		m.iterationDone(node, out)
		return
	}
	m.succeed(node, out)
}

// succeed ends the run behind its last node, whose output counts only when it is an END that says one.
func (m *machine) succeed(node *ir.Node, last any) {
	var out any = m.s.Vars
	if node.Op == ir.OpEnd && node.Output != nil {
		out = last
	} else if len(m.p.Doc.Output) > 0 {
		v, f := ir.Eval(m.p.Doc.Output, m.scope(nil))
		if f != nil {
			f.Message = "output of the run: " + f.Message
			m.end(lattice.Failed, f)
			return
		}
		out = v
	}
	m.end(lattice.Succeeded, nil)
	m.s.Output = out
}

// fail ends the current attempt with f: retry, else catch, else the run fails.
func (m *machine) fail(f *ir.Failure) {
	if m.s.Undoing != nil {
		m.undone(f)
		return
	}
	node, v := m.p.Node(m.at.Node), m.at.Visit
	for i, rule := range node.Retry {
		if !matches(rule.On, f.Kind) {
			continue
		}
		attempts := rule.MaxAttempts
		if attempts == 0 {
			attempts = 4
		}
		if v.Retries[i]+1 >= attempts {
			break
		}
		delay := m.delay(rule, i)
		v.Retries[i]++
		v.Suspended, v.Map, v.Key = nil, nil, ""
		m.issue(lattice.Command{Kind: lattice.DoTimer, DelayS: delay})
		return
	}
	m.fallTo(f)
}

// delay is the pause before the next attempt under a rule, in seconds.
func (m *machine) delay(rule ir.Retry, index int) float64 {
	const day = 24 * 60 * 60
	interval, rate := rule.IntervalS, rule.BackoffRate
	if interval == 0 {
		interval = 1
	}
	if rate == 0 {
		rate = 2
	}
	for range m.at.Visit.Retries[index] {
		interval = min(interval*rate, day)
	}
	if rule.MaxDelayS > 0 {
		interval = min(interval, rule.MaxDelayS)
	}
	if rule.Jitter == "full" {
		sum := sha256.Sum256([]byte(m.visitKey("jitter", strconv.Itoa(index), strconv.Itoa(m.at.Visit.Retries[index]))))
		interval *= float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
	}
	return interval
}

// fallTo ends the current visit with f without another attempt: catch, else the run fails. Failures after a node did
// its work come here directly, because a retry would do the work twice.
func (m *machine) fallTo(f *ir.Failure) {
	if m.s.Undoing != nil {
		m.undone(f)
		return
	}
	node, v := m.p.Node(m.at.Node), m.at.Visit
	f.Node, f.Attempt = node.ID, v.Attempt
	for _, c := range node.Catch {
		if !matches(c.On, f.Kind) {
			continue
		}
		caught := caught(f)
		if c.Bind != "" {
			if bad := m.write(write{c.Bind, caught}); bad != nil {
				m.giveUp(bad)
				return
			}
		}
		m.at.Err = caught
		m.goTo(c.To)
		return
	}
	m.giveUp(f)
}

// caught is a failure as catch binds it.
func caught(f *ir.Failure) map[string]any {
	c := map[string]any{"kind": f.Kind, "message": f.Message, "node": f.Node, "attempt": number(f.Attempt), "data": nil}
	if data, err := ir.Decode(f.Data); len(f.Data) > 0 && err == nil {
		c["data"] = data
	}
	return c
}

// giveUp ends the current thread with f, which nothing in it catches.
func (m *machine) giveUp(f *ir.Failure) {
	if m.at.up != nil {
		m.iterationFailed(f)
		return
	}
	m.undo(f)
}

// matches reports whether a retry or catch rule covers kind. ALL leaves out what must not be swallowed unseen.
func matches(on []string, kind string) bool {
	if slices.Contains(on, kind) {
		return true
	}
	return slices.Contains(on, "ALL") && kind != ir.FailLimit && kind != ir.FailCancelled
}

// scope is what references see; out is the output of the node that is being left, or nil.
func (m *machine) scope(out any) ir.Scope {
	s := ir.Scope{Vars: m.s.Vars, Tmp: m.at.Tmp, Ctx: m.s.Ctx, In: m.s.In, Out: out, Err: m.at.Err}
	if f := m.at.frame(); f != nil {
		s.Vars, s.In = f.Vars, f.In
	}
	for t := m.at; t.iteration != nil; t = t.up {
		op := m.p.Node(t.up.Node).Op
		if op == ir.OpMap || op == ir.OpLoop {
			return s.WithItem(t.iteration.Item, t.iteration.Index)
		}
		if op == ir.OpSubgraph {
			break
		}
	}
	return s
}

// visitKey derives an id that belongs to this visit of this node in this iteration alone.
func (m *machine) visitKey(parts ...string) string { return m.keyIn(m.s.Epoch, parts...) }

// effectKey is the idempotency key of this visit's effect. A loss of power does not change it: the effect is the same one.
func (m *machine) effectKey(what string) string { return m.keyIn(m.s.Epoch-m.s.Losses, what) }

func (m *machine) keyIn(epoch int, parts ...string) string {
	visit := 0
	if m.at.Visit != nil {
		visit = m.at.Visit.Number
	}
	if m.at.path != "" {
		parts = append(parts, "@"+m.at.path)
	}
	return lattice.DerivedKey(append([]string{m.s.RunID, strconv.Itoa(epoch), m.at.Node, strconv.Itoa(visit)}, parts...)...)
}
