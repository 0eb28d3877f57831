package replay

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// WorldEffect is an effect of a run outside of its sprites, or a possible one. A rewind does not undo it.
type WorldEffect struct {
	Name   string // of the action, such as PUSH_BRANCH, or of the skill
	Node   string // "" for an action that a call did not wait for
	Where  string // for people: where the effect is to be seen; "" = it did not say
	Branch string // that was pushed, "" of all else
	Unsure bool   // cut off: the effect may or may not have happened
}

// String is the effect for people: "PUSH_BRANCH at push (lattice/run_… of /src)".
func (w WorldEffect) String() string {
	text := w.Name
	if w.Node != "" {
		text += " at " + w.Node
	}
	if w.Where != "" {
		text += " (" + w.Where + ")"
	}
	if w.Unsure {
		text += ", perhaps: it was cut off"
	}
	return text
}

// worldEffects returns the effects on the world of one step. A command that was under way and is no longer, although no fact
// tells its outcome, may have had its effect.
func worldEffects(before, after runstate.State, fact lattice.Fact) []WorldEffect {
	var out []WorldEffect
	ended := "" // the command whose end the fact is
	switch f := fact.(type) {
	case lattice.ActionDone:
		if c, ok := before.FindCommand(f.CommandID); ok && c.Action != nil {
			out = append(out, actionEffects(WorldEffect{Name: c.Action.Name, Node: c.Node}, f.OK, f.Result, lattice.DoneInPart(f.Fault))...)
		}
		ended = f.CommandID
	case lattice.ActionNoted:
		if f.Verdict == lattice.Allow && f.Detail == "done" {
			out = append(out, WorldEffect{Name: f.Action.Name})
		}
	case lattice.ActionDecided:
		if f.Decision == lattice.Approve && f.ByHand {
			out = append(out, WorldEffect{Name: f.Action})
		}
	case lattice.ActionSettled:
		out = append(out, actionEffects(WorldEffect{Name: f.Action}, f.OK, f.Result, lattice.DoneInPart(f.Fault))...)
	case lattice.CallFinished:
		if c, ok := before.FindCommand(f.CommandID); ok && f.OK && runstate.OnWorld(c) {
			out = append(out, WorldEffect{Name: c.Call.Skill, Node: c.Node})
		}
		ended = f.CommandID
	case lattice.CallSuspended:
		ended = f.CommandID
	case lattice.CallBlocked:
		ended = f.CommandID
	case lattice.CommandFailed:
		ended = f.CommandID
	case lattice.Answered:
		if w, ok := before.FindWait(f.WaitID); ok && w.ByHand() && f.Decision != lattice.Reject {
			out = append(out, WorldEffect{Name: w.Action.Name, Node: w.Node, Where: formatPlace(readPlace(f.Inputs))})
		}
	}
	for _, c := range before.Pending {
		if _, still := after.FindCommand(c.ID); !still && c.ID != ended && (runstate.OnWorld(c) || c.Kind == lattice.DoAction) {
			out = append(out, unsureEffect(c))
		}
	}
	return out
}

// actionEffects returns the effects of an action: one in each repository of its result. inPart tells those of an action that was
// refused after a part of it was performed.
func actionEffects(of WorldEffect, ok bool, result json.RawMessage, inPart string) []WorldEffect {
	switch {
	case ok:
		var r struct {
			Also []json.RawMessage `json:"also"`
		}
		if json.Unmarshal(result, &r) != nil {
			r.Also = nil
		}
		var out []WorldEffect
		for _, part := range append([]json.RawMessage{result}, r.Also...) {
			branch, url := readPlace(part)
			of.Where, of.Branch = formatPlace(branch, url), branch
			out = append(out, of)
		}
		return out
	case inPart != "":
		of.Where = inPart
		return []WorldEffect{of}
	}
	return nil
}

// pendingEffects are the effects that a run which was cut off may have had, so far without a fact.
func pendingEffects(s runstate.State) []WorldEffect {
	var out []WorldEffect
	for _, c := range s.Pending {
		if runstate.OnWorld(c) || c.Kind == lattice.DoAction {
			out = append(out, unsureEffect(c))
		}
	}
	return out
}

// unsettledActions collects the approved and begun actions whose outcome no fact tells yet, by key, with the last fact
// before their effect.
type unsettledActions map[string]approvedAction

type approvedAction struct {
	effect WorldEffect
	seq    lattice.Seq
}

func (u unsettledActions) applyFact(seq lattice.Seq, fact lattice.Fact) {
	switch f := fact.(type) {
	case lattice.ActionNoted:
		if f.Verdict == lattice.Allow {
			delete(u, f.Action.Key)
		}
		if f.Begun {
			branch, _ := readPlace(f.Action.Parameters)
			u[f.Action.Key] = approvedAction{WorldEffect{Name: f.Action.Name, Where: branch, Branch: branch, Unsure: true}, seq}
		}
	case lattice.ActionDecided:
		if f.Decision == lattice.Approve && !f.ByHand {
			u[f.Key] = approvedAction{WorldEffect{Name: f.Action, Unsure: true}, seq}
		}
	case lattice.ActionSettled:
		delete(u, f.Key)
	}
}

// listAfter returns the effects that the actions may have had which were approved or begun after seq, by key.
func (u unsettledActions) listAfter(seq lattice.Seq) (out []WorldEffect) {
	for _, key := range slices.Sorted(maps.Keys(u)) {
		if u[key].seq > seq {
			out = append(out, u[key].effect)
		}
	}
	return out
}

// unsureEffect is the effect that a command may have had. A push says to which branch.
func unsureEffect(c lattice.Command) WorldEffect {
	if c.Kind != lattice.DoAction {
		return WorldEffect{Name: c.Call.Skill, Node: c.Node, Unsure: true}
	}
	branch, _ := readPlace(c.Action.Parameters)
	return WorldEffect{Name: c.Action.Name, Node: c.Node, Where: branch, Branch: branch, Unsure: true}
}

// readPlace returns the branch and the URL in the parameters or the result of an action.
func readPlace(result json.RawMessage) (branch, url string) {
	var r struct {
		Branch string `json:"branch"`
		URL    string `json:"url"`
	}
	if json.Unmarshal(result, &r) != nil {
		return "", ""
	}
	return r.Branch, r.URL
}

func formatPlace(branch, url string) string {
	if branch != "" && url != "" {
		return branch + " of " + url
	}
	return branch + url
}
