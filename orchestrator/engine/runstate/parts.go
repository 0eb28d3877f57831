package runstate

import (
	"encoding/json"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Next is the run that continues after a legacy question was answered (DESIGN 25). The leader starts it, unless a run with this
// id exists.
type Next struct {
	RunID   string            `json:"run_id"`
	Answers map[string]string `json:"answers"` // in addition to those that this run had
}

// Nodes with cache "run" do not repeat a request. The result of a call or the answer of a model is part of the state, by the
// digest of the request; a node with the same request takes it, and an event tells so. Therefore replay and rewind agree with
// the run: a rewind also removes later results. While a request is under way, nodes with the same one wait for its result.
//
// The result of a skill also depends on files: it is valid until a call writes in that sprite, its files are restored, or the
// run waits for a person, who may write there. Only calls of class read and idempotent without compensation are cached, and
// never failures. The oldest results are removed first.

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

// Nodes that ask models. A request is a command like a call; its answer is a fact, as received. Package ladder checks the
// answer within Step, so that a replay decides the same without a request. A request whose
// answer is not in the journal is asked again, and counts again.

// Asking is a node's visit while it asks models.
type Asking struct{ ladder.Rung }

// Spent is the usage of models.
type Spent struct {
	Calls int `json:"llm_calls"` // questions, those asked again included
	lattice.ModelUsage
}

func (s Spent) Plus(calls int, u lattice.ModelUsage) Spent {
	return Spent{Calls: s.Calls + calls, ModelUsage: s.ModelUsage.Plus(u)}
}

// Recovering is a way back under way. When the files are there, the pending commands are issued again; in journals of older
// versions a fact is applied again.
type Recovering struct {
	Command string               `json:"command"`        // restores the files of a sprite
	Left    []lattice.SpriteBack `json:"left,omitempty"` // the sprites that follow
	Begin   bool                 `json:"begin,omitempty"`
	Type    string               `json:"type,omitempty"`
	Fact    json.RawMessage      `json:"fact,omitempty"`
}

// Compensation. A TOOL_CALL with compensate names the call that undoes it. When it has completed, the arguments of that call
// are evaluated and kept. When the run fails because a failure is not caught, these calls are made in the reverse order of
// completion, one at a time, and then the run fails with the first failure:
//
//   - Nodes inside of MAPs and other bodies count, whether or not their node failed and the failure was caught there. A
//     node that did not complete, or whose unknown outcome a person settled as failed, is not undone.
//   - A call that takes back runs once, under the rules for its class: cut off it is found out about, goes again, or is
//     a person's to settle. If it fails, the others are made all the same, and the failure of the run names it.
//   - It counts against no max_steps and max_calls. A run that is canceled, or ended by its limits max_steps or
//     timeout_s, ends at once: State.Done then lists the effects that remain.

// Undo is the call that undoes a node.
type Undo struct {
	Node    string        `json:"node"`
	Path    string        `json:"path,omitempty"`
	Call    *lattice.Call `json:"call,omitempty"`
	Failure *expr.Failure `json:"failure,omitempty"` // why it cannot be called
}

// Undoing is compensation under way, or how it ended.
type Undoing struct {
	Cause  *expr.Failure `json:"cause"`
	Now    Undo          `json:"now"`
	Undone []string      `json:"undone,omitempty"` // nodes, in the order in which they were undone
	Failed []string      `json:"failed,omitempty"` // nodes that were not, and why
}
