package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// A PUSH_BRANCH or an OPEN_PR may have further repositories in its parameter also. Each repository is a part of the action: the
// policy judges the part, and it has a digest of its own. The parts are approved together and performed one after the other.
// Parameters, binding and result of the action are those of its first part, with those of the others in their member also.

// Parts returns the parts of an action in the order in which they are performed. Each is an action of one repository with the
// key of the whole. An action of one repository is its only part.
func Parts(a lattice.Action) []lattice.Action {
	own, also := splitAlso(a.Parameters)
	if also == nil || a.Name != protocol.ActionPushBranch && a.Name != protocol.ActionOpenPR {
		return []lattice.Action{a}
	}
	binding, bindings := splitAlso(a.Binding)
	parts := []lattice.Action{a}
	parts[0].Parameters, parts[0].Binding = own, binding
	for i, raw := range also {
		part := a
		part.Parameters, part.Binding = partParameters(a.Name, own, raw), nil
		if i < len(bindings) {
			part.Binding = bindings[i]
		}
		parts = append(parts, part)
	}
	return parts
}

// partParameters returns the parameters of the action that an item of also stands for. If they cannot be read they are the item
// itself, which no action takes.
func partParameters(name string, own, item json.RawMessage) json.RawMessage {
	var of struct {
		Title string `json:"title"`
		Body  string `json:"body"`
	}
	var p protocol.AlsoPush
	if json.Unmarshal(own, &of) != nil || json.Unmarshal(item, &p) != nil {
		return item
	}
	var part any = protocol.PushBranch{Branch: p.Branch, Base: p.Base, Head: p.Head, Bundle: p.Bundle, SHA256: p.SHA256, Title: of.Title, Repo: p.Repo}
	if name == protocol.ActionOpenPR {
		part = protocol.OpenPR{Title: of.Title, Body: of.Body, Base: p.Into, Head: p.Branch, BaseSHA: p.Base, HeadSHA: p.Head, Bundle: p.Bundle, SHA256: p.SHA256, Repo: p.Repo}
	}
	raw, err := json.Marshal(part)
	if err != nil {
		return item
	}
	return raw
}

// splitAlso returns a JSON object without its member also, and the items of that member, nil if there are none.
func splitAlso(raw json.RawMessage) (own json.RawMessage, also []json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["also"], &also) != nil || len(also) == 0 {
		return raw, nil
	}
	delete(members, "also")
	own, err := json.Marshal(members)
	if err != nil {
		return raw, nil
	}
	return own, also
}

// joinAlso returns the first object with the others in its member also.
func joinAlso(all []json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	err := json.Unmarshal(all[0], &members)
	if err == nil {
		members["also"], err = json.Marshal(all[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("join the parts of an action: %w", err)
	}
	return json.Marshal(members)
}

// strictness orders decisions: the strictest about a part holds for the whole.
var strictness = map[lattice.Verdict]int{lattice.Allow: 0, lattice.Ask: 1, lattice.Deny: 2}

// judge judges each part of an action.
func (f *Fulfiller) judge(ctx context.Context, c lattice.Call, a lattice.Action) (Judged, error) {
	parts := Parts(a)
	if len(parts) == 1 || checkParameters(a.Name, a.Parameters) != nil {
		return f.judgePart(ctx, c, a, 0)
	}
	var whole Judged
	keys, bindings, seen := []string{a.Name}, []json.RawMessage{}, map[string]bool{}
	for i, part := range parts {
		j, err := f.judgePart(ctx, c, part, i)
		if err != nil {
			return Judged{Action: a}, err
		}
		switch to := destinationOf(j.Action); {
		case j.Decision == lattice.Deny:
		case i > 0 && j.Action.ByHand != whole.Action.ByHand:
			j.Decision, j.Reason = lattice.Deny, formatRefusal(newRefusal("unsupported", "ask for that one by itself", "lattice is not connected to the code host of each repository"))
		case to != "" && seen[to]:
			j.Decision, j.Reason = lattice.Deny, formatRefusal(newRefusal("bad_parameters", "push each branch once", "two of the pushes are to the branch %s", to))
		default:
			seen[to] = true
		}
		if i == 0 || strictness[j.Decision] > strictness[whole.Decision] {
			whole.Verdict, whole.Decision, whole.Reason = j.Verdict, j.Decision, j.Reason
		}
		if i == 0 {
			whole.Action = j.Action
		}
		if j.Action.Binding == nil {
			j.Action.Binding = json.RawMessage(`{}`) // a person does it by hand
		}
		keys, bindings = append(keys, j.Action.Key), append(bindings, j.Action.Binding)
		if j.Decision == lattice.Deny {
			code, reason, _ := strings.Cut(whole.Reason, ": ")
			whole.Reason = fmt.Sprintf("%s: part %d of %d, %s: %s", code, i+1, len(parts), f.nameTarget(part), reason)
			break
		}
	}
	whole.Action.Parameters, whole.Action.Key, whole.Action.Binding = a.Parameters, lattice.DerivedKey(keys...), nil
	if whole.Decision == lattice.Deny {
		return whole, nil
	}
	var err error
	whole.Action.Binding, err = joinAlso(bindings)
	return whole, err
}

// destinationOf returns the branch that an inspected part pushes to, "" of any other.
func destinationOf(part lattice.Action) string {
	var bound worktree.Push
	if json.Unmarshal(part.Binding, &bound) != nil || bound.RemoteURL == "" {
		return ""
	}
	return Destination(bound.Branch, bound.RemoteURL)
}

// Destination names a branch of a remote, for people and for comparisons.
func Destination(branch, remote string) string { return branch + " of " + remote }

// Destinations returns the branches that an inspected action pushes to.
func Destinations(a lattice.Action) (all []string) {
	for _, part := range Parts(a) {
		if to := destinationOf(part); to != "" {
			all = append(all, to)
		}
	}
	return all
}

// nameTarget returns the repository of a part for people.
func (f *Fulfiller) nameTarget(part lattice.Action) string {
	own, _, _ := f.repoOf(part.RunID)
	repo, _ := Target(part.Parameters, own)
	return remote.StripCredentials(repo)
}

// DoParts performs the parts of an action with perform, in order, and returns their joined result. Nothing is performed if one
// of several parts cannot be any more. Doing it again after a crash continues: perform finds the work of a former part done.
// If a part is refused after others were performed, the refusal has the code partly_done and says which.
func (f *Fulfiller) DoParts(ctx context.Context, a lattice.Action, perform func(context.Context, lattice.Action) ([]byte, error)) ([]byte, error) {
	parts := Parts(a)
	if len(parts) == 1 {
		return perform(ctx, a)
	}
	states := make([]string, len(parts))
	refusal, err := f.surveyParts(ctx, parts, states)
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return nil, f.stop(refusal, parts, states)
	}
	var results []json.RawMessage
	for i, part := range parts {
		out, err := perform(ctx, part)
		if no, ok := errors.AsType[*lattice.Refusal](err); ok {
			states[i] = partRefused
			return nil, f.stop(no, parts, states)
		}
		if err != nil {
			return nil, err
		}
		states[i], results = partDone, append(results, out)
	}
	return joinAlso(results)
}

// The states of a part of an action that was not performed as a whole; "" has not been tried.
const (
	partDone    = "done"
	partRefused = "refused"
)

// surveyParts looks for parts whose commits are at their destination already, and for the first one that is not what was
// approved any more.
func (f *Fulfiller) surveyParts(ctx context.Context, parts []lattice.Action, states []string) (refusal *lattice.Refusal, err error) {
	for i, part := range parts {
		there, err := f.lookAtBound(ctx, part)
		no, refused := errors.AsType[*lattice.Refusal](err)
		switch {
		case refused && refusal == nil:
			refusal, states[i] = no, partRefused
		case refused:
		case err != nil:
			return nil, err
		case there:
			states[i] = partDone
		}
	}
	return refusal, nil
}

// lookAtBound reports whether the commits that an action is bound to are at their destination. It refuses an action that is not
// what was approved any more.
func (f *Fulfiller) lookAtBound(ctx context.Context, a lattice.Action) (there bool, err error) {
	push, err := f.boundPush(ctx, a)
	if err != nil {
		return false, err
	}
	now, err := f.git.Inspect(ctx, push.Request)
	if err != nil {
		return false, err
	}
	return push.Compare(now)
}

// stop returns the refusal of an action of several parts, one of which was refused with no.
func (f *Fulfiller) stop(no *lattice.Refusal, parts []lattice.Action, states []string) error {
	type partState struct {
		Repo  string `json:"repo"`
		State string `json:"state"` // done, refused or not_tried
	}
	var all []partState
	var lines []string
	for i, part := range parts {
		p := partState{f.nameTarget(part), states[i]}
		switch p.State {
		case partDone:
			lines = append(lines, p.Repo+": done")
		case partRefused:
			lines = append(lines, fmt.Sprintf("%s: refused, because %s", p.Repo, no.Fault.Message))
		default:
			p.State = "not_tried"
			lines = append(lines, p.Repo+": not tried")
		}
		all = append(all, p)
	}
	details, err := json.Marshal(map[string]any{"parts": all, "cause": no.Fault})
	if err != nil {
		return err
	}
	text := strings.Join(lines, "; ")
	if slices.Contains(states, partDone) {
		return &lattice.Refusal{Fault: protocol.Fault{Code: lattice.CodePartlyDone, Message: "performed in part: " + text, Hint: no.Fault.Hint, Details: details}}
	}
	return &lattice.Refusal{Fault: protocol.Fault{Code: no.Fault.Code, Message: "nothing was performed: " + text, Hint: no.Fault.Hint, Details: details}}
}
