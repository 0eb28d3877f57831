package runstate

import (
	"encoding/json"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Next is the run that goes on where a legacy question was answered (DESIGN 25). Whoever drives starts it, if there is
// none of this id yet.
type Next struct {
	RunID   string            `json:"run_id"`
	Answers map[string]string `json:"answers"` // in addition to those that this run had
}

// Nodes with cache "run" do not ask twice. What a call or a model answered is part of the run's state, by the digest of all
// that was asked; a node that would ask the same takes it, and an event says so. So replay and rewind agree with the run:
// what was kept behind a moment is gone with it. While one asks, others that would ask the same wait for its answer.
//
// What a skill answers depends on the files, too: it holds until something writes in that sprite, or its files are put
// back, or somebody is waited for, who may write there meanwhile. Only calls of class read and idempotent are kept, unless
// they are to be taken back, and no failure ever is. The oldest answers make room.

// Cached is an answer that is kept.
type Cached struct {
	Key    string `json:"key"`
	Node   string `json:"node"`             // which got it
	Sprite string `json:"sprite,omitempty"` // whose files it depends on
	Copy   string `json:"copy,omitempty"`   // in which it was made, of a call with a sprite of its own
	Class  string `json:"class,omitempty"`  // of models
	Value  any    `json:"value"`
	Bytes  int    `json:"bytes"` // of Value as JSON
}

// Nodes that ask models. A question is a command like a call; its answer is a fact, as it came. What the answer is worth
// is decided here, by package ladder: whoever folds the journal again decides the same and asks nobody. A question whose
// answer is not in the journal is asked again, and counts again.

// Asking is a node's visit while it asks models.
type Asking struct{ ladder.Rung }

// Spent is what questions to models have taken.
type Spent struct {
	Calls int `json:"llm_calls"` // questions, those asked again included
	lattice.ModelUsage
}

func (s Spent) Plus(calls int, u lattice.ModelUsage) Spent {
	return Spent{Calls: s.Calls + calls, ModelUsage: s.ModelUsage.Plus(u)}
}

// Recovering is a way back under way: the fact that is taken again when the files are there; none where the run stays.
type Recovering struct {
	Command string          `json:"command"` // that restores them
	Type    string          `json:"type,omitempty"`
	Fact    json.RawMessage `json:"fact,omitempty"`
}

// Compensation. A TOOL_CALL with compensate says how what it did is taken back. When it has completed, the arguments of
// that are evaluated and kept. When the run fails, because a failure is caught nowhere, what was kept is called in the
// reverse order of completion, one call at a time, and then the run fails as it would have:
//
//   - Nodes inside of MAPs and other bodies count, whether or not their node failed and the failure was caught there. A
//     node that did not complete, or whose unknown outcome a person settled as failed, is not taken back.
//   - A call that takes back runs once, under the rules for its class: cut off it is found out about, goes again, or is
//     a person's to settle. If it fails, the others are made all the same, and the failure of the run names it.
//   - It counts against no max_steps and max_calls. A run that is canceled, or ended by its limits max_steps or
//     timeout_s, ends at once: State.Done then tells what stands.

// Undo is what takes back a node.
type Undo struct {
	Node    string        `json:"node"`
	Path    string        `json:"path,omitempty"`
	Call    *lattice.Call `json:"call,omitempty"`
	Failure *ir.Failure   `json:"failure,omitempty"` // why it cannot be called
}

// Undoing is compensation under way, or how it ended.
type Undoing struct {
	Cause  *ir.Failure `json:"cause"`
	Now    Undo        `json:"now"`
	Undone []string    `json:"undone,omitempty"` // nodes, in the order in which they were taken back
	Failed []string    `json:"failed,omitempty"` // nodes that were not, and why
}
