// Package timeline folds the journal of a run into the steps that a person sees, and puts runs, events and actions into
// words. It is pure: package follow draws it while a run goes on, lattice show afterwards.
//
// Begin with Timeline.
package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Add takes the next entry; it reports whether anything to be seen changed.
func (t *Timeline) Add(e lattice.Entry) bool {
	before := t.Current
	t.now, t.seq = e.At, e.Seq
	changed := t.add(e)
	before.enter(e.At)
	t.Current.enter(e.At)
	return changed
}

func (t *Timeline) add(e lattice.Entry) bool {
	if e.Kind == lattice.EntryEvent {
		return t.showEvent(e)
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return false
	}
	before := t.Current
	t.setCurrent(commandOf(fact))
	switch f := fact.(type) {
	case lattice.RunStarted:
		if f.Sprite != "" {
			t.beginPreparation("prepare", e.At)
		}
	case lattice.RunForked:
		if f.Pair != nil {
			t.beginPreparation("copy", e.At)
		}
	case lattice.Rewound:
		t.closeSteps(e.At, Dropped, "left")
		t.beginPreparation(fmt.Sprintf("↺ back to %s#%d", f.Moment.Name(), f.Moment.Visit), e.At)
	case lattice.PowerLost:
		t.powerLost(e.At, f)
	case lattice.CallFinished:
		state := Failed
		if f.OK {
			state = Done
		}
		t.noteCall(e.At, Call{ID: f.CallID, State: state, Failure: f.Kind})
		t.finishCall(e.At, f)
	case lattice.CallBlocked:
		t.noteCall(e.At, Call{ID: f.CallID, State: Waiting})
		t.endStep(e.At, Waiting, f.Question.Kind+": "+f.Question.Prompt)
	case lattice.CallSuspended:
		t.noteCall(e.At, Call{ID: f.CallID, State: Waiting})
		t.noteQuestion(false)
		t.setState(Waiting, describePause(lattice.Wait{Prompt: f.Reason, ResumeAt: f.ResumeAt}))
		if f.Verdict == lattice.Deny {
			t.setState(Running, "refused: "+f.DenyReason)
		}
	case lattice.CallLost:
		t.setState(Running, "cut off: "+f.Detail)
	case lattice.BoundaryTaken:
		t.noteQuestion(true)
		if t.Current != nil {
			t.Current.Checkpoints = append(t.Current.Checkpoints, e.At)
		}
	case lattice.Restored:
		t.setState(Running, "files restored to "+f.Pair.CheckpointID)
	case lattice.Answered:
		if t.asking != nil {
			t.Current, t.asking = t.asking, nil
		} else {
			t.Current.hasWaited()
		}
		state := Running
		if t.Current != nil && !t.Current.Ended.IsZero() { // the answer begins another run
			state = Done
		}
		t.setState(state, fmt.Sprintf("%s by %s", decided[f.Decision], f.By))
		t.goOnSince(e.At)
	case lattice.ActionDone:
		t.setState(Running, actionText(f))
	case lattice.ActionDecided:
		t.addAside(e.At, f.Action, Done, decided[f.Decision]+" by "+f.By)
	case lattice.ActionSettled:
		if f.OK {
			t.addAside(e.At, f.Action, Done, "done outside")
		} else {
			t.addAside(e.At, f.Action, Failed, actionText(lattice.ActionDone{Fault: f.Fault}))
		}
	case lattice.TimerFired:
		t.goOnSince(e.At)
		t.timerFired(e.Started)
	case lattice.ModelAnswered:
		state := Done
		if f.Kind != "" {
			state = Failed
		}
		t.noteCall(e.At, Call{Skill: f.Model, State: state, Usage: f.Usage, Provider: f.Provider, Failure: f.Kind})
		t.modelAnswered(f)
	case lattice.ModelAskedAgain:
		t.setState(Running, "asks again")
	case lattice.CommandFailed:
		t.endStep(e.At, Failed, f.Fault.Message)
	case lattice.CancelRequested:
		t.closeSteps(e.At, Failed, "canceled by "+f.By)
	}
	for _, name := range e.Started {
		t.goOn(name, e.At)
	}
	return t.Current != before || t.Current != nil
}

var decided = map[lattice.Decision]string{lattice.Approve: "approved", lattice.Reject: "rejected", lattice.Answer: "answered"}

// Pause shows that the run waits for a person or a time, which is state and no entry of its own.
func (t *Timeline) Pause(waits []lattice.Wait) {
	if len(waits) > 0 && t.Current != nil && t.Current.State == Running {
		t.Current.hasWaited()
		t.setState(Waiting, describePause(waits[0]))
		t.Current.enter(t.now)
	}
}

func describePause(w lattice.Wait) string {
	if until := w.Until(); until != "" {
		return w.Prompt + "; " + until
	}
	return w.Prompt
}

func (t *Timeline) finishCall(at time.Time, f lattice.CallFinished) {
	report := f.Data
	if f.Fault != nil {
		report = f.Fault.Details
	}
	var agent struct {
		Text string `json:"final_text"`
	}
	if bytes.Contains(report, []byte(`"final_text"`)) && json.Unmarshal(report, &agent) == nil && agent.Text != "" {
		t.Words = agent.Text
	}
	if f.OK {
		t.endStep(at, Done, summarizeData(f.Data))
		return
	}
	message := f.Kind
	if f.Fault != nil {
		message = f.Fault.Code + ": " + f.Fault.Message
	}
	t.endStep(at, Failed, message)
}

// powerLost begins the node again to which a run goes back. Iterations that had begun before go on.
func (t *Timeline) powerLost(at time.Time, f lattice.PowerLost) {
	const again = "again, because the power was lost"
	var then struct{ Node string }
	if json.Unmarshal(f.State, &then) != nil {
		return // the run stays where it is
	}
	if s := t.lanes[""]; s != nil && s.Node == then.Node && s.Seq <= f.Seq && len(f.Sprites) > 0 && len(s.Below) > 0 {
		t.reopenBelow(s, at, f.Seq, again)
		s.Ended, s.State, s.Message, t.Current = time.Time{}, Running, again, s
		return
	}
	t.closeSteps(at, Dropped, "the power was lost")
	t.beginStep("", cmp.Or(then.Node, "prepare"), at)
	t.setState(Running, again)
}

// timerFired tells the ends of pauses apart, which the fact does not: another attempt, a WAIT that is over, a question to
// a person that was not answered, and the time of a node that runs others inside, which drops them.
func (t *Timeline) timerFired(started []string) {
	s := t.Current
	dropped := func(name string) bool { return strings.HasSuffix(name, lattice.IterationDropped) }
	switch {
	case s == nil:
	case s.State == Waiting && s.Skill != "":
		t.setState(Running, "goes on")
	case s.State == Waiting:
		t.setState(Running, "not answered in time")
	case len(s.Below) > 0 && slices.ContainsFunc(started, dropped):
		t.setState(Running, "its time is up")
	case s.State == Failed, s.Skill != "", len(s.Below) > 0:
		s.Ended = time.Time{} // how the next attempt ends is to be seen
		t.setState(Running, "tries again")
	}
}

// showEvent shows the message of a step.
func (t *Timeline) showEvent(e lattice.Entry) bool {
	if t.Current == nil || len(e.Problems) > 0 {
		return false
	}
	ev, _, ok := protocol.Decode(e.Body)
	if !ok {
		return false
	}
	payload, err := ev.Open()
	if err != nil {
		return false
	}
	if slices.Contains(e.Flags, "orchestrator") { // the run's own end
		if p, ok := payload.(protocol.Completed); ok && p.Status == protocol.StatusSuccess {
			t.closeSteps(e.At, Done, "")
		} else {
			t.closeSteps(e.At, Failed, "")
		}
		return true
	}
	s := t.findSpeaker(e.CallID)
	switch p := payload.(type) {
	case protocol.PhaseStarted:
		if s.Skill == "" { // the calls of an agent have phases, too
			s.Skill = cli.Clean(p.Phase)
		}
	case protocol.Info:
		if p.Kind == "result" || p.Kind == protocol.KindAgentTurn {
			return false
		}
		s.Message = cli.Clean(p.Message)
		if p.Kind == "agent" {
			s.Message = cli.Clean(strings.Join(append(agentSoFar(p.Metadata), p.Message), ", "))
		}
	default:
		return false
	}
	return true
}

// agentSoFar returns the use and progress of an agent by the time of one of its events, in words.
func agentSoFar(metadata json.RawMessage) []string {
	var m struct {
		SoFar agentUse `json:"so_far"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	return m.SoFar.describeUse()
}

// agentUse is the use of models and tools by an agent.
type agentUse struct {
	ToolCalls int      `json:"tool_calls"`
	Retries   int      `json:"retries"`
	Tokens    int64    `json:"tokens"`
	CostUSD   *float64 `json:"cost_usd"`
}

func (u agentUse) describeUse() (words []string) {
	if u.ToolCalls > 0 {
		words = append(words, cli.Count(u.ToolCalls, "tool call", "tool calls"))
	}
	if u.Retries > 0 {
		words = append(words, cli.Count(u.Retries, "retry", "retries"))
	}
	if u.Tokens > 0 {
		words = append(words, fmt.Sprintf("%d tokens", u.Tokens))
	}
	if u.CostUSD != nil && *u.CostUSD > 0 {
		words = append(words, fmt.Sprintf("$%.2f", *u.CostUSD))
	}
	return words
}

// summarizeData returns the part of a skill's data that is interesting for people.
func summarizeData(data json.RawMessage) string {
	var d struct {
		Status string `json:"status"`
		Commit string `json:"commit"`
		Head   string `json:"head"`
		Branch string `json:"branch"`
		Counts *struct {
			Total  int `json:"total"`
			Failed int `json:"failed"`
		} `json:"counts"`
		ToolCalls *struct {
			Total int `json:"total"`
		} `json:"tool_calls"`
		Retries int `json:"retries"`
		spent
		Inherited spent `json:"inherited"` // shown of the call that took it
	}
	if json.Unmarshal(data, &d) != nil {
		return ""
	}
	var parts []string
	if d.Status != "" {
		parts = append(parts, d.Status)
	}
	if d.Counts != nil && d.Counts.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s, %d failed", cli.Count(d.Counts.Total, "test", "tests"), d.Counts.Failed))
	}
	if d.ToolCalls != nil { // an agent's
		use := agentUse{d.ToolCalls.Total, d.Retries, d.tokens() - d.Inherited.tokens(), new(d.Cost.USD - d.Inherited.Cost.USD)}
		parts = append(parts, strings.Join(use.describeUse(), ", "))
	}
	if d.Branch != "" {
		parts = append(parts, d.Branch)
	}
	for _, sha := range []string{d.Commit, d.Head} {
		if len(sha) >= 10 {
			parts = append(parts, sha[:10])
			break
		}
	}
	return cli.Clean(strings.Join(parts, " "))
}

func actionText(f lattice.ActionDone) string {
	if f.OK {
		return "done outside; resuming"
	}
	if f.Fault != nil {
		return "not done: " + f.Fault.Message
	}
	return "not done"
}
