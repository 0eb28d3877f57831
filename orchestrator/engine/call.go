package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// maxLosses is how often one attempt may be cut off before it counts as failed. The end of a leader cuts off, too, and
// people end leaders for reasons of their own.
const maxLosses = 5

// startCall begins an attempt of a TOOL_CALL: first the boundary that is owed, then the call.
func (m *machine) startCall(node *ir.Node) {
	v := m.at.Visit
	if v.Call == nil {
		call, f := m.resolve(node, m.scope(nil))
		if f != nil {
			m.fail(f)
			return
		}
		v.Call = call
	}
	call := *v.Call
	call.Attempt, call.Resume = v.Attempt, nil
	v.Call, v.Acted = &call, false
	if v.Key = m.callKey(node); m.recall(node) {
		return
	}
	if node.ForksSprites() {
		call.Sprite = m.copyName()
	}
	m.s.Calls++
	if l := m.p.Doc.Limits; l != nil && l.MaxCalls > 0 && m.s.Calls > l.MaxCalls {
		m.fallTo(failure(ir.FailLimit, "the run needs more than its %d calls", l.MaxCalls))
		return
	}
	if node.ForksSprites() {
		m.copySprite()
		return
	}
	m.send()
}

// send takes the boundary that the visit's call is owed, then dispatches it.
func (m *machine) send() {
	call := m.at.Visit.Call
	pair, paired := m.s.Pairs[call.Sprite]
	owed := call.Class == manifests.ClassSprite || call.Class == manifests.ClassWorld
	first := !paired && call.Class != manifests.ClassRead // a run can always be taken back to its beginning
	durable := m.s.Disk != "" && call.Class == manifests.ClassWorld
	if first || owed && m.s.Dirty[call.Sprite] || durable && !pair.Durable {
		m.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: call.Sprite, Durable: durable})
		return
	}
	m.dispatch()
}

// dispatch issues the visit's call as it stands, when there is room: first time, again, or resumed.
func (m *machine) dispatch() {
	if m.hold() {
		return
	}
	if m.answerFromRecord() || m.askWorld() {
		return
	}
	v := m.at.Visit
	if node := m.p.Node(m.at.Node); v.Losses == 0 && v.Call.Resume == nil && m.recall(node) { // another got it meanwhile
		m.s.Calls--
		return
	}
	v.Before = nil
	if pair, ok := m.s.Pairs[v.Call.Sprite]; ok {
		v.Before = &pair
	}
	// Whatever is not read may have written files, which a later restore must not take back unseen.
	if v.Call.Class != manifests.ClassRead {
		m.s.Dirty[v.Call.Sprite] = true
		m.changed(v.Call.Sprite)
	}
	m.issue(lattice.Command{Kind: lattice.DoCall, Sprite: v.Call.Sprite, Call: v.Call})
}

// resolve evaluates everything about a call that stays the same over its attempts.
func (m *machine) resolve(node *ir.Node, scope ir.Scope) (*lattice.Call, *ir.Failure) {
	tool, ok := m.p.Tools[node.Tool]
	if !ok {
		return nil, failure(ir.FailToolUnavailable, "no manifest of skill %s is pinned to this run", node.Tool)
	}
	args, f := arguments(node, scope)
	if f != nil {
		return nil, f
	}
	input, err := ir.Marshal(args)
	if err != nil {
		return nil, failure(ir.FailStateType, "encode arguments: %v", err)
	}
	key := m.effectKey("call")
	if len(node.IdempotencyKey) > 0 {
		given, f := ir.Eval(node.IdempotencyKey, scope)
		if f != nil {
			return nil, f
		}
		if key, f = text(given); f != nil {
			return nil, f
		}
	}
	if f := checked(tool, args); f != nil {
		return nil, f
	}
	class, permissions := m.p.Class(node, input)
	call := &lattice.Call{
		RunID: m.s.RunID, WorkItem: m.s.WorkItem, Sprite: m.sprite(), Epoch: m.s.Epoch,
		Node: node.ID, Path: m.at.path, Visit: m.at.Visit.Number, IdempotencyKey: key,
		Skill: node.Tool, Input: input, Class: class,
		Permissions: granted(permissions, m.s.Grants), TimeoutS: node.TimeoutS,
	}
	if slices.Contains(call.Permissions, "agent:run") {
		call.Below = slices.Clone(m.s.Grants)
	}
	if call.TimeoutS == 0 {
		call.TimeoutS = tool.TimeoutS
	}
	return call, nil
}

// arguments evaluates args; members that are null are not sent.
func arguments(node *ir.Node, scope ir.Scope) (map[string]any, *ir.Failure) {
	if len(node.Args) == 0 {
		return map[string]any{}, nil
	}
	v, f := ir.Eval(node.Args, scope)
	if f != nil {
		f.Message = "arguments: " + f.Message
		return nil, f
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, failure(ir.FailStateType, "the arguments of %s are no object", node.ID)
	}
	args = maps.Clone(args)
	maps.DeleteFunc(args, func(_ string, v any) bool { return v == nil })
	return args, nil
}

// checked judges arguments against the manifest before anything is sent.
func checked(tool manifests.Skill, args map[string]any) *ir.Failure {
	members := make(map[string]json.RawMessage, len(args))
	for name, v := range args {
		raw, err := ir.Marshal(v)
		if err != nil {
			return failure(ir.FailStateType, "encode argument %s: %v", name, err)
		}
		members[name] = raw
	}
	problems := tool.CheckInput(members)
	if len(problems) == 0 {
		return nil
	}
	f := failure(ir.FailSchema, "%s does not take these arguments: %s %s", tool.Name, problems[0].Pointer, problems[0].Message)
	data, err := ir.Marshal(map[string]any{"problems": problems})
	if err == nil {
		f.Data = data
	}
	return f
}

func (m *machine) callFinished(f lattice.CallFinished) error {
	if f.OK && len(f.Data) > 0 { // before anything is believed
		if _, err := ir.Decode(f.Data); err != nil {
			return fmt.Errorf("data of CallFinished: %w", err)
		}
	}
	c, err := m.answer(f.CommandID, lattice.DoCall)
	if err != nil {
		return err
	}
	m.leaveQueue()
	if v := m.at.Visit; m.s.Disk != "" && !m.inCopy() && (onWorld(c) || v.Acted && c.Call.Class != manifests.ClassRead) {
		v.Ended = &f // what was done outside is not to be left behind by a loss of power
		m.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: c.Sprite, Durable: true})
		return nil
	}
	return m.callEnded(f)
}

// callEnded goes on from a call that has ended.
func (m *machine) callEnded(f lattice.CallFinished) error {
	if f.OK {
		if len(f.Data) == 0 {
			f.Data = json.RawMessage(`{}`)
		}
		data, err := ir.Decode(f.Data)
		if err != nil {
			return fmt.Errorf("data of CallFinished: %w", err)
		}
		m.callDone(data)
		return nil
	}
	m.leaveCopy(m.p.Node(m.at.Node), false)
	bad := &ir.Failure{Kind: f.Kind, Message: fmt.Sprintf("%s exited with %d", m.at.Visit.Call.Skill, f.Exit)}
	if bad.Kind == "" {
		bad.Kind = ir.FailTool
	}
	if f.Fault != nil {
		bad.Message = m.at.Visit.Call.Skill + ": " + f.Fault.Message
		data, err := ir.Marshal(f.Fault)
		if err != nil {
			return fmt.Errorf("encode fault: %w", err)
		}
		bad.Data = data
	}
	m.fail(bad)
	return nil
}

// callDone completes the node of a call with what it answered.
func (m *machine) callDone(data any) {
	node := m.p.Node(m.at.Node)
	if m.inCopy() {
		m.extra = map[string]any{"sprite": m.at.Visit.Call.Sprite}
	}
	m.keepAnswer(node, data)
	m.leaveCopy(node, true)
	m.finish(data)
	m.extra = nil
}

// callLost is DESIGN 14: read and idempotent skills run again, a sprite skill runs again on restored files, and what
// may have changed the world is a person's to settle.
func (m *machine) callLost(f lattice.CallLost) error {
	c, err := m.answer(f.CommandID, lattice.DoCall)
	if err != nil {
		return err
	}
	v := m.at.Visit
	if v.Call.Class == manifests.ClassWorld {
		m.unknown(f.Detail)
		return nil
	}
	v.Losses++
	if v.Before != nil && (v.Call.Class == manifests.ClassSprite || v.Call.Resume != nil) {
		m.restore(*v.Before)
		return nil
	}
	m.again(c.Sprite)
	return nil
}

// unknown asks a person what became of the current call, of class world.
func (m *machine) unknown(detail string) {
	m.open(lattice.Wait{
		Kind:     lattice.WaitUnknown,
		Prompt:   fmt.Sprintf("%s was cut off and may or may not have happened: %s", m.at.Visit.Call.Skill, detail),
		Reason:   "unknown_outcome",
		Choices:  []string{"done", "retry", "fail"},
		Expected: map[string]string{"outcome": "string", "result": "map"},
		Optional: []string{"result"},
	})
}

// again dispatches the same attempt once more, unless it was lost too often.
func (m *machine) again(sprite string) {
	if v := m.at.Visit; v.Losses >= maxLosses {
		m.leaveQueue()
		m.fail(failure(ir.FailToolUnavailable, "%s was cut off %d times in sprite %s", v.Call.Skill, v.Losses, sprite))
		return
	}
	m.dispatch()
}

func (m *machine) restore(to lattice.Pair) {
	m.issue(lattice.Command{Kind: lattice.DoRestore, Sprite: to.Sprite, Pair: &to})
}

func (m *machine) restored(f lattice.Restored) error {
	c, err := m.answer(f.CommandID, lattice.DoRestore)
	if err != nil {
		return err
	}
	if r := m.s.Recovering; r != nil && r.Command == c.ID {
		return m.recovered(*c.Pair)
	}
	m.s.Pairs[c.Sprite] = *c.Pair
	m.s.Dirty[c.Sprite] = false
	m.changed(c.Sprite)
	if m.at.Visit == nil { // of a rewind, which begins the node anew
		m.goTo(m.at.Node)
		return nil
	}
	m.again(c.Sprite)
	return nil
}

func (m *machine) boundaryTaken(f lattice.BoundaryTaken) error {
	if f.Pair.CheckpointID == "" {
		return fmt.Errorf("BoundaryTaken without a checkpoint id")
	}
	c, err := m.answer(f.CommandID, lattice.DoCheckpoint)
	if err != nil {
		return err
	}
	f.Pair.Sprite = c.Sprite
	m.s.Pairs[c.Sprite] = f.Pair
	m.s.Dirty[c.Sprite] = false
	node, asked := m.p.Node(m.at.Node), m.at.Visit.Suspended
	if ended := m.at.Visit.Ended; ended != nil {
		m.at.Visit.Ended = nil
		return m.callEnded(*ended)
	}
	switch {
	case node.Op == ir.OpHuman:
		m.ask(node)
	case m.at.Visit.Map != nil: // what the copies of its items are made of
		m.advance(m.at)
	case m.inCopy() && c.Sprite != m.at.Visit.Call.Sprite: // what the call's own is made of
		m.copySprite()
	case asked != nil: // the calls beside it have ended
		m.suspended(*asked.Deferred)
	default:
		m.dispatch()
	}
	return nil
}

// granted is manifest ∩ grants; "*" on either side stands for all (DESIGN 16).
func granted(manifest, grants []string) []string {
	switch {
	case slices.Contains(grants, "*"):
		return slices.Sorted(slices.Values(manifest))
	case slices.Contains(manifest, "*"):
		return slices.Clone(grants)
	}
	both := []string{}
	for _, p := range slices.Sorted(slices.Values(manifest)) {
		if slices.Contains(grants, p) {
			both = append(both, p)
		}
	}
	return both
}

// text is v for people and keys: a string as it is, anything else as JSON.
func text(v any) (string, *ir.Failure) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	raw, err := ir.Marshal(v)
	if err != nil {
		return "", failure(ir.FailStateType, "encode: %v", err)
	}
	return string(raw), nil
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }
