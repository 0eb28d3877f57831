package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// cacheKey returns the key under which the result of the current call is cached, "" if it is not.
func (t callOp) cacheKey(node *ir.Node) string {
	c := t.Visit.Call
	if node.Cache != ir.CacheRun || node.Compensate != nil || c.Class != manifests.ClassRead && c.Class != manifests.ClassIdempotent {
		return ""
	}
	grants := fmt.Sprintf("%q %q", c.Permissions, c.Below)
	given := "" // two keys of the flow's own are two calls
	if len(node.IdempotencyKey) > 0 {
		given = c.IdempotencyKey
	}
	// Files that were written in a fork are not in the sprite.
	return lattice.DerivedKey("call", t.Sprite(), strconv.FormatBool(node.ForksSprites()), c.Skill, string(c.Input), string(c.Class), grants, given)
}

// finishFromCache completes the current call with a cached answer. It reports whether there is one.
func (t callOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.CachedAnswer(node)
	if !ok {
		return false
	}
	var ports map[string]any
	if t.runsInCopy() {
		t.reuseCopy(node, hit.Copy)
		ports = map[string]any{"sprite": hit.Copy}
	}
	t.CompleteNode(hit.Value, ports)
	return true
}

// reuseCopy makes the fork in which the cached result was made the fork of the current call.
func (t callOp) reuseCopy(node *ir.Node, name string) {
	m := t.Run
	if t.Visit.Call.Sprite != t.Sprite() { // the fork was made before the result was cached
		t.releaseCopy(node, false)
	}
	if node.KeepSprite && !slices.Contains(m.State.Kept, name) {
		m.State.Kept = append(m.State.Kept, name)
	}
}

// maxLosses is the number of times that one attempt may be cut off before it counts as failed. It is generous because the
// end of a leader cuts off calls, too.
const maxLosses = 5

// callOp is the operation of TOOL_CALL: a call of a skill in a sprite.
type callOp struct{ *machine.Thread }

// Begin begins an attempt of a TOOL_CALL: first the boundary that is owed, then the call.
func (t callOp) Begin(node *ir.Node) {
	m := t.Run
	v := t.Visit
	if v.Call == nil {
		call, f := t.resolveCall(node, t.Scope(nil))
		if f != nil {
			t.FailAttempt(f)
			return
		}
		v.Call = call
	}
	call := *v.Call
	call.Attempt, call.Resume = v.Attempt, nil
	v.Call, v.Acted = &call, false
	if v.Key = t.cacheKey(node); t.finishFromCache(node) {
		return
	}
	if node.ForksSprites() {
		call.Sprite = t.copyName()
	}
	m.State.Calls++
	if l := m.Program.Doc.Limits; l != nil && l.MaxCalls > 0 && m.State.Calls > l.MaxCalls {
		t.FailVisit(machine.Failf(expr.FailLimit, "the run needs more than its %d calls", l.MaxCalls))
		return
	}
	if node.ForksSprites() {
		t.makeCopy()
		return
	}
	if node.Restore != "" {
		t.restoreMark(node.Restore)
		return
	}
	t.Send()
}

// restoreMark puts the files back to those before the last call of a node. The visit's call is sent when they are there.
func (t callOp) restoreMark(node string) {
	pair, ok := t.Run.State.Marks[node]
	if !ok {
		t.FailVisit(machine.Failf(expr.FailInvariant, "there are no files to go back to: the run has no checkpoint from before %s", node))
		return
	}
	t.Issue(machine.Restore(pair))
}

// Answered goes on with a call after the fact that answers one of its commands.
func (t callOp) Answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	switch f := f.(type) {
	case lattice.Prepared:
		t.Send()
	case lattice.CallFinished:
		return t.callFinished(c, f)
	case lattice.CallSuspended:
		return t.callSuspended(c, f)
	case lattice.CallLost:
		t.callLost(c, f)
	case lattice.CallBlocked:
		t.callBlocked(f)
	case lattice.BoundaryTaken:
		return t.checkpointTaken(c)
	case lattice.TimerFired:
		t.waitedLongEnough()
	case lattice.Restored:
		if cut := t.Visit.Cut; cut != "" {
			t.failCut(cut)
			return nil
		}
		t.sendAgain(c.Sprite)
	case lattice.ActionDone:
		return t.actionDone(c, f)
	case lattice.Attested:
		return proofOp{t}.attested(f)
	default:
		return unexpectedFact(c, f)
	}
	return nil
}

// Send takes the boundary that the visit's call is owed, then dispatches it.
func (t callOp) Send() {
	m := t.Run
	call := t.Visit.Call
	pair, paired := m.State.Pairs[call.Sprite]
	owed := call.Class == manifests.ClassSprite || call.Class == manifests.ClassWorld
	first := !paired && call.Class != manifests.ClassRead // a run can always be rewound to its start
	durable := m.State.Disk != "" && call.Class == manifests.ClassWorld
	if first || owed && m.State.Dirty[call.Sprite] || durable && !pair.Durable {
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: call.Sprite, Durable: durable})
		return
	}
	t.Dispatch()
}

// Dispatch issues the visit's call as it stands, when there is room: first time, again, or resumed.
func (t callOp) Dispatch() {
	m := t.Run
	if t.HoldBack() {
		return
	}
	if t.finishFromRecord() || t.askApproval() {
		return
	}
	v := t.Visit
	if node := m.Program.Node(t.Node); v.Losses == 0 && v.Call.Resume == nil && t.finishFromCache(node) { // another thread has got the result in the meantime
		m.State.Calls--
		return
	}
	v.Before = nil
	if pair, ok := m.State.Pairs[v.Call.Sprite]; ok {
		v.Before = &pair
		if m.Program.Marked(t.Node) {
			if m.State.Marks == nil {
				m.State.Marks = map[string]lattice.Pair{}
			}
			m.State.Marks[t.Node] = pair
		}
	}
	// A call of any class but read may write files, which a later restore must not remove unnoticed.
	if v.Call.Class != manifests.ClassRead {
		m.State.Dirty[v.Call.Sprite] = true
		m.InvalidateCache(v.Call.Sprite)
		if !v.Planned {
			t.voidPlanned()
		}
	}
	t.Issue(lattice.Command{Kind: lattice.DoCall, Sprite: v.Call.Sprite, Call: v.Call})
}

// resolveCall evaluates everything about a call that stays the same over its attempts.
func (t callOp) resolveCall(node *ir.Node, scope expr.Scope) (*lattice.Call, *expr.Failure) {
	m := t.Run
	tool, ok := m.Program.Tools[node.Tool]
	if !ok {
		return nil, machine.Failf(expr.FailToolUnavailable, "no manifest of skill %s is pinned to this run", node.Tool)
	}
	args, f := evalArguments(node, scope)
	if f != nil {
		return nil, f
	}
	input, err := expr.Marshal(args)
	if err != nil {
		return nil, machine.Failf(expr.FailStateType, "encode arguments: %v", err)
	}
	key := t.EffectKey("call")
	if len(node.IdempotencyKey) > 0 {
		given, f := expr.Eval(node.IdempotencyKey, scope)
		if f != nil {
			return nil, f
		}
		if key, f = formatText(given); f != nil {
			return nil, f
		}
	}
	if f := checkArguments(tool, args); f != nil {
		return nil, f
	}
	class, permissions := m.Program.Class(node, input)
	call := &lattice.Call{
		RunID: m.State.RunID, WorkItem: m.State.WorkItem, Sprite: t.Sprite(), Epoch: m.State.Epoch,
		Node: node.ID, Path: t.Path, Visit: t.Visit.Number, IdempotencyKey: key,
		Skill: node.Tool, Input: input, Class: class,
		Permissions: intersectGrants(permissions, m.State.Grants), TimeoutS: node.TimeoutS,
	}
	if slices.Contains(call.Permissions, "agent:run") || m.State.BelowExec && slices.Contains(call.Permissions, "exec") {
		call.Below = slices.Clone(m.State.Grants)
	}
	call.TimeoutS = cmp.Or(call.TimeoutS, tool.TimeoutS)
	return call, nil
}

// evalArguments evaluates args; members that are null are not sent.
func evalArguments(node *ir.Node, scope expr.Scope) (map[string]any, *expr.Failure) {
	if len(node.Args) == 0 {
		return map[string]any{}, nil
	}
	v, f := expr.Eval(node.Args, scope)
	if f != nil {
		f.Message = "arguments: " + f.Message
		return nil, f
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, machine.Failf(expr.FailStateType, "the arguments of %s are not an object", node.ID)
	}
	args = maps.Clone(args)
	maps.DeleteFunc(args, func(_ string, v any) bool { return v == nil })
	return args, nil
}

// checkArguments judges arguments against the manifest before anything is sent.
func checkArguments(tool manifests.Skill, args map[string]any) *expr.Failure {
	members := make(map[string]json.RawMessage, len(args))
	for name, v := range args {
		raw, err := expr.Marshal(v)
		if err != nil {
			return machine.Failf(expr.FailStateType, "encode argument %s: %v", name, err)
		}
		members[name] = raw
	}
	problems := tool.CheckInput(members)
	if len(problems) == 0 {
		return nil
	}
	f := machine.Failf(expr.FailSchema, "%s does not take these arguments: %s %s", tool.Name, problems[0].Pointer, problems[0].Message)
	data, err := expr.Marshal(map[string]any{"problems": problems})
	if err == nil {
		f.Data = data
	}
	return f
}

// callFinished takes the outcome of a call, behind a durable checkpoint if it changed the world.
func (t callOp) callFinished(c lattice.Command, f lattice.CallFinished) error {
	if f.OK && len(f.Data) > 0 { // before anything is believed
		if _, err := expr.Decode(f.Data); err != nil {
			return fmt.Errorf("data of CallFinished: %w", err)
		}
	}
	if v := t.Visit; f.Fault != nil && f.Fault.Code == protocol.CodeCutOff && v.Losses > 0 && v.Before != nil { // the skill cannot continue
		t.Issue(machine.Restore(*v.Before))
		return nil
	}
	t.Run.State.LeaveBarrier(t.Path)
	if proof := (proofOp{t}); f.OK && proof.verifies() {
		proof.attest(f)
		return nil
	}
	if v := t.Visit; t.Run.State.Disk != "" && !t.runsInCopy() && (runstate.OnWorld(c) || v.Acted && c.Call.Class != manifests.ClassRead) {
		v.Ended = &f // effects outside must survive a loss of power
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: c.Sprite, Durable: true})
		return nil
	}
	return t.finishCall(f)
}

// finishCall goes on from a call that has ended.
func (t callOp) finishCall(f lattice.CallFinished) error {
	if f.OK {
		if len(f.Data) == 0 {
			f.Data = json.RawMessage(`{}`)
		}
		data, err := expr.Decode(f.Data)
		if err != nil {
			return fmt.Errorf("data of CallFinished: %w", err)
		}
		t.completeCall(data)
		return nil
	}
	t.releaseCopy(t.Run.Program.Node(t.Node), false)
	bad := &expr.Failure{Kind: f.Kind, Message: fmt.Sprintf("%s exited with %d", t.Visit.Call.Skill, f.Exit)}
	bad.Kind = cmp.Or(bad.Kind, expr.FailTool)
	if f.Fault != nil {
		bad.Message = t.Visit.Call.Skill + ": " + f.Fault.Message
		data, err := expr.Marshal(f.Fault)
		if err != nil {
			return fmt.Errorf("encode fault: %w", err)
		}
		bad.Data = data
	}
	t.FailAttempt(bad)
	return nil
}

// completeCall completes the node of a call with its result.
func (t callOp) completeCall(data any) {
	node := t.Run.Program.Node(t.Node)
	var ports map[string]any
	answer := runstate.Cached{Value: data, Sprite: t.Sprite()}
	if t.runsInCopy() {
		answer.Copy = t.Visit.Call.Sprite
		ports = map[string]any{"sprite": answer.Copy}
	}
	t.CacheAnswer(node, answer)
	t.releaseCopy(node, true)
	t.CompleteNode(data, ports)
}

// checkpointTaken goes on with the call for which a checkpoint was taken.
func (t callOp) checkpointTaken(c lattice.Command) error {
	v := t.Visit
	if ended := v.Ended; ended != nil {
		v.Ended = nil
		return t.finishCall(*ended)
	}
	switch {
	case t.runsInCopy() && c.Sprite != v.Call.Sprite: // of which the call's own sprite is a copy
		t.makeCopy()
	case v.Suspended != nil: // its siblings have ended
		t.requestInputs(*v.Suspended.Deferred)
	default:
		t.Dispatch()
	}
	return nil
}

// intersectGrants is manifest ∩ grants; "*" on either side stands for all (DESIGN 16).
func intersectGrants(manifest, grants []string) []string {
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

// formatText is v for people and keys: a string as it is, anything else as JSON.
func formatText(v any) (string, *expr.Failure) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	raw, err := expr.Marshal(v)
	if err != nil {
		return "", machine.Failf(expr.FailStateType, "encode: %v", err)
	}
	return string(raw), nil
}

// ResolveUndo evaluates the call that takes back the current node.
func (t callOp) ResolveUndo(node *ir.Node, out any) (*lattice.Call, *expr.Failure) {
	c := node.Compensate
	call, f := t.resolveCall(&ir.Node{ID: node.ID, Op: ir.OpToolCall, Tool: c.Tool, Args: c.Args}, t.Scope(out))
	if f != nil {
		return nil, f
	}
	call.Attempt = 1
	call.Path = strings.TrimPrefix(t.Path+"/undo", "/")
	call.IdempotencyKey = t.EffectKey("undo")
	return call, nil
}

// A TOOL_CALL with sprite "fork" runs in a fork of the enclosing sprite, made from a checkpoint that is taken when the attempt
// starts. Each attempt has a fork of its own. Other nodes do not see the files that the call writes there, only its output.
// Forks are removed when the run has ended, except those of State.Kept.

// copyName returns the name of the fork for the current attempt. It begins with the name of the enclosing sprite.
func (t callOp) copyName() string {
	v := t.Visit
	key := lattice.DerivedKey(t.Run.State.RunID, strconv.Itoa(t.Run.State.Epoch), t.Path, t.Node, strconv.Itoa(v.Number), strconv.Itoa(v.Attempt))
	return fmt.Sprintf("%.40s-%s", t.Sprite(), key[:12])
}

// makeCopy makes the fork in which the current call runs. It takes a checkpoint first if there is none of the present files.
func (t callOp) makeCopy() {
	from := t.Sprite()
	pair, paired := t.Run.State.Pairs[from]
	if t.Run.State.Dirty[from] || !paired {
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: from})
		return
	}
	t.Issue(lattice.Command{Kind: lattice.DoFork, Sprite: t.Visit.Call.Sprite, Pair: &pair})
}

// runsInCopy reports whether the current node is a call that has a sprite of its own.
func (t callOp) runsInCopy() bool {
	v := t.Visit
	return t.Run.State.Undoing == nil && v != nil && v.Call != nil && t.Run.Program.Node(t.Node).ForksSprites()
}

// releaseCopy forgets the fork of a call that has ended. If the call succeeded and its node has keep_sprite, the fork is kept
// after the run.
func (t callOp) releaseCopy(node *ir.Node, ok bool) {
	m := t.Run
	if !t.runsInCopy() {
		return
	}
	name := t.Visit.Call.Sprite
	delete(m.State.Pairs, name)
	delete(m.State.Dirty, name)
	if ok && node.KeepSprite {
		m.State.Kept = append(m.State.Kept, name)
	}
}
