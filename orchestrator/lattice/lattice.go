// Package lattice holds the nouns of the orchestrator: entries, facts, commands, calls, outcomes, ids and status
// tables. It does no I/O and imports no sibling. Start with Fact (what goes into engine.Step) and Command (what comes
// out of it); Entry is how both reach the store.
//
//	run      one execution of an ExecIR program
//	call     one attempt at a skill; its id is an HMAC that a sprite cannot guess
//	wait     a question to a person; a run has at most one open wait per node
//	boundary a Pair: journal position and sprite checkpoint that belong together
//	path     which iteration of a MAP something belongs to; see Command
//	epoch    rises with rewind and fork, so that old call ids are never issued again
package lattice

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Seq is a position in the store's one sequence. 0 is before everything.
type Seq uint64

// EntryKind says what an Entry holds.
type EntryKind string

const (
	EntryFact  EntryKind = "fact"  // input of Step
	EntryEvent EntryKind = "event" // observation of a sprite, never an input of Step
	EntryState EntryKind = "state" // snapshot after the facts of the same Append; replaces the run's former one
)

// Entry is one record of the log. The driver sets At, the store sets Seq; the body is pure. A state entry has no place
// of its own in the sequence.
type Entry struct {
	Seq  Seq             `json:"seq"`
	At   time.Time       `json:"at"`
	Run  string          `json:"run_id"`
	Kind EntryKind       `json:"kind"`
	Type string          `json:"type"` // fact type or event_type
	Body json.RawMessage `json:"body"`
	// Started names the nodes that the commit of this fact began, those of iterations as path/node; and the iterations
	// that it ended, as path and IterationDone, IterationFailed or IterationDropped.
	Started []string `json:"started,omitempty"`
	// Active is how long the run had been driven when this fact was appended, waits for people excluded. The run's
	// timeout is measured against it.
	Active time.Duration `json:"active_ns,omitempty"`
	// StateSum is the digest of the run's state behind this fact; the last fact of each commit bears it. Replays name the
	// first entry that leads elsewhere by it.
	StateSum string `json:"state_sum,omitempty"`
	// Chain is the digest of this fact and of all before it; see Chain. Facts of older versions have none.
	Chain string `json:"chain,omitempty"`
	// Of events only.
	Sprite   string             `json:"sprite,omitempty"`
	CallID   string             `json:"call_id,omitempty"`
	Dedupe   string             `json:"dedupe,omitempty"` // an entry whose key the run already has is not appended again
	Problems []protocol.Problem `json:"problems,omitempty"`
	Flags    []string           `json:"flags,omitempty"` // legacy, unknown_call, foreign_sprite …
}

// FlagEnded is in Flags of the state of a run that has ended.
const FlagEnded = "ended"

// What became of an iteration, behind its path in Entry.Started. No node is called so.
const (
	IterationDone    = "/+"
	IterationFailed  = "/!"
	IterationDropped = "/-" // given up: an item before it failed the MAP
)

// Compensating stands before the name of a node in Entry.Started whose effect begins to be taken back.
const Compensating = "undo:"

// Event is an observation on its way from a sprite to the log.
type Event struct {
	Sprite   string
	CallID   string
	Event    protocol.Event
	Problems []protocol.Problem
	Dedupe   string
	Flags    []string
}

// Call is one attempt at a skill.
type Call struct {
	ID             string          `json:"call_id"` // set by the runner; see CallID
	RunID          string          `json:"run_id"`
	WorkItem       string          `json:"work_item_id"`
	Sprite         string          `json:"sprite"`
	Epoch          int             `json:"epoch"`
	Node           string          `json:"node"`
	Path           string          `json:"path,omitempty"` // iteration path, "" outside of any MAP
	Attempt        int             `json:"attempt"`        // rises with policy retries, not with re-dispatch
	Visit          int             `json:"visit"`          // of the node
	IdempotencyKey string          `json:"idempotency_key"`
	Skill          string          `json:"skill"`
	Input          json.RawMessage `json:"input"`
	Class          manifests.Class `json:"class"`
	Permissions    []string        `json:"permissions"`
	// Below is what skills may be granted that this call makes for the run, such as those of an agent: what the run was.
	Below    []string `json:"below,omitempty"`
	TimeoutS float64  `json:"timeout_s"`
	// Resume is set when the call continues after WAITING.
	Resume *protocol.Resume `json:"resume,omitempty"`
	// Uncertain is set when this very call may have been dispatched before: the caller must look for its outcome
	// first. It then runs a read or idempotent skill again, and answers lost for the others.
	Uncertain bool `json:"-"`
}

// OutcomeKind says how a call ended, as seen from outside.
type OutcomeKind string

const (
	Finished  OutcomeKind = "finished"
	Suspended OutcomeKind = "suspended"
	Lost      OutcomeKind = "lost" // unknown, never success
)

// Outcome is what a Caller found out about a call.
type Outcome struct {
	Kind   OutcomeKind
	Result protocol.Result // Finished; also Suspended (its Waiting)
	Exit   int
	// Failure is the failure kind of ir ("tool_error", "timeout", "tool_unavailable" …), "" when the skill succeeded.
	Failure string
	Request *protocol.ActionRequest // Suspended: the blocking request of this call, if it made one
	Asked   *protocol.Question      // Finished: the legacy question, or blocked, that this call emitted
	Detail  string                  // Lost: what is known
}

// Pair is a boundary: a journal position and the sprite checkpoint that belongs to it.
type Pair struct {
	Seq          Seq    `json:"seq"`
	Sprite       string `json:"sprite"`
	CheckpointID string `json:"checkpoint_id"`
	Durable      bool   `json:"durable"`
}

// Action is an external effect that a sprite asked for. Key makes doing it twice the same as doing it once.
type Action struct {
	Key        string          `json:"key"`
	RunID      string          `json:"run_id"`
	CallID     string          `json:"call_id"`
	Sprite     string          `json:"sprite"`
	Name       string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`
	// Binding is what an approval binds: for PUSH_BRANCH remote, branch, base, head, diff digest and the path of the
	// bundle's verified copy. What changes needs a new approval.
	Binding json.RawMessage `json:"binding,omitempty"`
	// ByHand says that nothing here can do it: a person does, and approving says that it was done.
	ByHand bool `json:"by_hand,omitempty"`
}

// Verdict is the policy's answer to an action.
type Verdict string

const (
	Allow Verdict = "allow" // do it
	Ask   Verdict = "ask"   // a person decides
	Deny  Verdict = "deny"  // resume the skill with the refusal
)

// Decision is a person's answer to a wait.
type Decision string

const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
	Answer  Decision = "answer"
)

// WaitKind says what a wait is about.
type WaitKind string

const (
	WaitAction  WaitKind = "action"          // a sprite asked for an action
	WaitSkill   WaitKind = "skill"           // a sprite waits for inputs
	WaitHuman   WaitKind = "human"           // a HUMAN node
	WaitWorld   WaitKind = "world_call"      // a skill of class world is about to be called
	WaitUnknown WaitKind = "unknown_outcome" // a world call was cut off; a person settles it
	// The run is over, and the answer begins another one (DESIGN 25).
	WaitQuestion WaitKind = "question" // a program asked by a legacy question
	WaitBlocked  WaitKind = "blocked"  // a program said by a legacy blocked that it cannot go on
)

// Wait is one open question to a person.
type Wait struct {
	ID           string            `json:"wait_id"`
	Kind         WaitKind          `json:"kind"`
	Node         string            `json:"node"`
	Path         string            `json:"path,omitempty"` // iteration path of the node
	Prompt       string            `json:"prompt"`
	Reason       string            `json:"reason,omitempty"`
	Choices      []string          `json:"choices,omitempty"`
	Default      string            `json:"default,omitempty"` // of a legacy question: what an empty answer stands for
	QuestionID   string            `json:"question_id,omitempty"`
	Expected     map[string]string `json:"expected_inputs,omitempty"`
	Optional     []string          `json:"optional_inputs,omitempty"` // expected inputs that may be left out
	CheckpointID string            `json:"checkpoint_id,omitempty"`
	Action       *Action           `json:"action,omitempty"`
	Details      json.RawMessage   `json:"details,omitempty"` // object: what the person should see (a HUMAN node's inputs)
}

// Legacy reports whether w is a legacy question or blocked, whose answer begins another run.
func (w Wait) Legacy() bool { return w.Kind == WaitQuestion || w.Kind == WaitBlocked }

// ByHand reports whether w is for an action that a person does, who may answer where it can be seen.
func (w Wait) ByHand() bool { return w.Action != nil && w.Action.ByHand }

// YesOrNo reports whether a bare approval or rejection answers w.
func (w Wait) YesOrNo() bool {
	switch w.Kind {
	case WaitAction:
		return true
	case WaitUnknown:
		return false
	}
	return len(w.Expected) == 0 || w.Expected["approved"] == "boolean"
}

// CommandKind says what a Command asks for.
type CommandKind string

const (
	DoPrepare    CommandKind = "prepare"    // make the sprite ready
	DoFork       CommandKind = "fork"       // make the sprite as a copy of Pair
	DoCall       CommandKind = "call"       // run a skill (first time, again, or resumed)
	DoCheckpoint CommandKind = "checkpoint" // take a boundary
	DoRestore    CommandKind = "restore"    // put the sprite's files back to Pair
	DoAction     CommandKind = "action"     // fulfil an action outside
	DoTimer      CommandKind = "timer"      // report after DelayS, or at Until
)

// Command is what Step wants done. It stays in the state's pending list until a fact answers it; recovery is
// performing what is pending.
//
// An iteration path names one iteration of a MAP, and from outside in those around it: "each[3]", "each#2[3]" in the
// MAP's second visit, "hosts[0]/each[3]" in a nested one.
type Command struct {
	ID     string      `json:"id"` // unique in the run, derived; that of an iteration ends in "@" and its path
	Kind   CommandKind `json:"kind"`
	Node   string      `json:"node,omitempty"`
	Path   string      `json:"path,omitempty"`
	Sprite string      `json:"sprite,omitempty"`
	Call   *Call       `json:"call,omitempty"`
	Pair   *Pair       `json:"pair,omitempty"`
	// Durable asks of DoCheckpoint that the checkpoint survives a loss of power before it is reported.
	Durable bool    `json:"durable,omitempty"`
	Action  *Action `json:"action,omitempty"`
	DelayS  float64 `json:"delay_s,omitempty"`
	Until   string  `json:"until,omitempty"` // RFC 3339; of a timer that goes off at an instant
	// Model is the question of DoModel, and Again how often it was asked anew.
	Model *ModelRequest `json:"model,omitempty"`
	Again int           `json:"again,omitempty"`
}

// ErrConflict says that somebody else appended to the run's log: this driver is not its owner any more.
var ErrConflict = errors.New("the run's log has moved on")

// Refusal is an error that is final: trying again would give the same answer. All other errors of effects mean
// "could not find out".
type Refusal struct{ Fault protocol.Fault }

func (r *Refusal) Error() string { return r.Fault.Message }
