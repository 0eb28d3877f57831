// Package lattice holds the nouns of the orchestrator. Read it before any other package: it does no I/O, imports no
// sibling, and every other package speaks in its types.
//
// # A run
//
// A flow is a document in ExecIR (package ir): nodes, and edges between them. A run is one execution of a flow. It
// belongs to a work item, the id under which events of sprites are reported, and usually has one sprite, a machine with a
// file system in which skills are called. [RunStatus] says where the run is in its life.
//
// The truth about a run is its journal: a sequence of [Entry] values in package store. An entry is one of
//
//   - a [Fact], something that happened and that the run believes,
//   - an event, something that a sprite said ([Event]); it never changes the course of the run,
//   - a snapshot of the state after the facts so far, which can be computed again at any time.
//
// [Seq] is a position in the journal. All runs of one store share the sequence.
//
// # How a run moves
//
// engine.Step takes the state and a Fact and returns the next state and a list of [Command] values: call a skill, take
// a checkpoint, restore files, ask a model, start a timer. A command stays pending until a fact answers it. After a
// crash the facts are folded again and the pending commands are performed again; this is all of recovery.
//
//	          RunStarted, Answered, CancelRequested
//	people ─────────────────────┐
//	                            ▼
//	          ┌──── Fact ──▶ engine.Step ──▶ Command ────┐
//	          │                                          ▼
//	       journal ◀── CallFinished, TimerFired, … ◀── driver ──▶ sprite, model, clock
//
// A [Call] is one attempt at a skill. Its id is an HMAC, so that a sprite cannot guess the id of a call and plant its
// result. Its class (package manifests) decides how a call that was cut off goes on: call it again, restore the files first,
// or ask a person. An [Outcome] is the driver's finding about a call; [Lost] is never success.
//
// A [Wait] is an open question to a person: for an approval, a value, or the outcome of a call that was cut off. A
// [Decision] answers it. An [Action] is an effect outside of the sprite that a skill asks for, such as a push; the
// policy's [Verdict] allows it, denies it or asks a person.
//
// A [ModelRequest] is one prompt to a language model, a [ModelReply] its answer.
//
// # Places in a run
//
//	node     a step of the flow, by its id
//	visit    one time that a node is entered; a loop visits a node more than once
//	attempt  one try within a visit; retry rules make more
//	path     the iteration of a MAP, PARALLEL, LOOP or SUBGRAPH in which something happens, "" in the flow itself: "each[3]",
//	         "each#2[3]" in the second visit of the MAP, "hosts[0]/each[3]" in a nested one
//	moment   the point before a node is entered and nothing else is at work ([Moment]); a run can be rewound to it or forked from it
//	epoch    rises when a run goes back, so that the ids of calls before are never used again
//
// # Files
//
// The files of a sprite change as the run proceeds, and the journal does not hold them. A [Pair] ties a position in the
// journal to a checkpoint of a sprite: the boundary to which both can return together. A durable pair survives a loss of
// power. A fork is a sprite that was made as a copy of a checkpoint.
package lattice

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Seq is a position in the store's one sequence. 0 is before everything.
type Seq uint64

// EntryKind is the kind of an Entry's content.
type EntryKind string

const (
	EntryFact  EntryKind = "fact"  // an input of Step
	EntryEvent EntryKind = "event" // an observation of a sprite, never an input of Step
	EntryState EntryKind = "state" // the state after the facts of the same Append; replaces the snapshot before
)

// EntryClass is the kind and the type of entries.
type EntryClass struct {
	Kind EntryKind
	Type string
}

// EntryCount is a number of entries.
type EntryCount struct {
	EntryClass
	Count uint64
}

// Entry is one record of the journal. The driver sets At, the store sets Seq; the body depends on neither. A state entry has
// no place of its own in the sequence.
type Entry struct {
	Seq  Seq             `json:"seq"`
	At   time.Time       `json:"at"`
	Run  string          `json:"run_id"`
	Kind EntryKind       `json:"kind"`
	Type string          `json:"type"` // fact type or event_type
	Body json.RawMessage `json:"body"`
	// Started lists the nodes that this fact began, as path/node inside of iterations, and the iterations that it ended, as
	// path followed by IterationDone, IterationFailed or IterationDropped.
	Started []string `json:"started,omitempty"`
	// Active is how long the run had been driven when this fact was appended, without waits for people. The timeout of the
	// run is compared with it.
	Active time.Duration `json:"active_ns,omitempty"`
	// StateSum is the digest of the state after this fact. The last fact of each append has one. A replay finds the first
	// fact that leads to another state by it.
	StateSum string `json:"state_sum,omitempty"`
	// Chain is the digest of this fact and of all facts before it; see [Chain]. Facts of older versions have none.
	Chain string `json:"chain,omitempty"`
	// Of events only.
	Sprite   string             `json:"sprite,omitempty"`
	CallID   string             `json:"call_id,omitempty"`
	Dedupe   string             `json:"dedupe,omitempty"` // an entry whose key the run already has is not appended again
	Problems []protocol.Problem `json:"problems,omitempty"`
	Flags    []string           `json:"flags,omitempty"` // legacy, nested, unknown_call, foreign_sprite …
}

// FlagEnded is in the Flags of the last snapshot of a run that has ended.
const FlagEnded = "ended"

// How an iteration ended, appended to its path in Entry.Started. No node can have such a name.
const (
	IterationDone    = "/+"
	IterationFailed  = "/!"
	IterationDropped = "/-" // given up, because its node failed or timed out
)

// Compensating is the prefix of a node in Entry.Started whose compensation begins.
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
	// Below are the permissions that this call may grant to skills that its program calls, such as those of an agent.
	Below    []string `json:"below,omitempty"`
	TimeoutS float64  `json:"timeout_s"`
	// Resume is set when the call continues after WAITING.
	Resume *protocol.Resume `json:"resume,omitempty"`
	// Uncertain is set when the same call may have been dispatched before. The Caller must look for its outcome first; if
	// there is none, it runs a read or idempotent skill again and reports the others as Lost.
	Uncertain bool `json:"-"`
}

// OutcomeKind says how a call ended, as the driver sees it.
type OutcomeKind string

const (
	Finished  OutcomeKind = "finished"
	Suspended OutcomeKind = "suspended"
	Lost      OutcomeKind = "lost" // the outcome is unknown
)

// Outcome is a Caller's finding about a call.
type Outcome struct {
	Kind   OutcomeKind
	Result protocol.Result // Finished; also Suspended (its Waiting)
	Exit   int
	// Failure is the failure kind of ir ("tool_error", "timeout", "tool_unavailable" …), "" when the skill succeeded.
	Failure string
	Request *protocol.ActionRequest // Suspended: the blocking request of this call, if it made one
	Asked   *protocol.Question      // Finished: the legacy question, or blocked, that this call emitted
	Detail  string                  // Lost: the known circumstances
}

// Pair is a boundary: a journal position and the sprite checkpoint that belongs to it.
type Pair struct {
	Seq          Seq    `json:"seq"`
	Sprite       string `json:"sprite"`
	CheckpointID string `json:"checkpoint_id"`
	Durable      bool   `json:"durable"`
}

// Action is an effect outside of the sprite that a skill asked for. It is idempotent by Key.
type Action struct {
	Key        string          `json:"key"`
	RunID      string          `json:"run_id"`
	CallID     string          `json:"call_id"`
	Sprite     string          `json:"sprite"`
	Name       string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`
	// Binding is the content that an approval covers: for PUSH_BRANCH the remote, branch, base, head, digest of the diff and
	// the path of the verified copy of the bundle. A change of it needs a new approval.
	Binding json.RawMessage `json:"binding,omitempty"`
	// ByHand says that a person has to do it; an approval then means that it was done.
	ByHand bool `json:"by_hand,omitempty"`
	// Begun is when an earlier attempt to perform it began whose outcome is unknown; zero if there is none.
	Begun time.Time `json:"-"`
}

// Verdict is the decision of the policy about an action.
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

// WaitKind is the subject of a wait.
type WaitKind string

const (
	WaitAction  WaitKind = "action"          // a sprite asked for an action
	WaitSkill   WaitKind = "skill"           // a sprite waits for inputs
	WaitHuman   WaitKind = "human"           // a HUMAN node
	WaitWorld   WaitKind = "world_call"      // a skill of class world is about to be called
	WaitUnknown WaitKind = "unknown_outcome" // a world call was cut off; a person settles it
	// The run ends with these two, and the answer starts another run (DESIGN 25).
	WaitQuestion WaitKind = "question" // a program emitted a legacy question event
	WaitBlocked  WaitKind = "blocked"  // a program emitted a legacy blocked event
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
	Default      string            `json:"default,omitempty"` // of a legacy question: the value of an empty answer
	QuestionID   string            `json:"question_id,omitempty"`
	Expected     map[string]string `json:"expected_inputs,omitempty"`
	Optional     []string          `json:"optional_inputs,omitempty"` // expected inputs that may be left out
	ResumeAt     string            `json:"resume_at,omitempty"`       // RFC 3339; the run goes on then by itself
	CheckpointID string            `json:"checkpoint_id,omitempty"`
	Action       *Action           `json:"action,omitempty"`
	Details      json.RawMessage   `json:"details,omitempty"` // object: shown to the person (a HUMAN node's inputs)
	Calls        []PlannedCall     `json:"calls,omitempty"`   // that an approval allows besides
}

// PlannedCall is a call of class world that a HUMAN node shows with its input and that its approval allows.
type PlannedCall struct {
	Node  string          `json:"node"`
	Skill string          `json:"skill"`
	Input json.RawMessage `json:"input"`
}

// Legacy reports whether w is for a legacy question or blocked event, whose answer starts another run.
func (w Wait) Legacy() bool { return w.Kind == WaitQuestion || w.Kind == WaitBlocked }

// ByHand reports whether w is for an action that a person has to do.
func (w Wait) ByHand() bool { return w.Action != nil && w.Action.ByHand }

// Until says when the run goes on by itself, "" if a person must answer.
func (w Wait) Until() string {
	at, err := time.Parse(time.RFC3339, w.ResumeAt)
	if err != nil {
		return ""
	}
	return "until " + at.Local().Format(time.DateTime) + ", then goes on by itself"
}

// AllTimed reports whether a run with these waits goes on by itself, at the first of their times.
func AllTimed(waits []Wait) bool {
	return len(waits) > 0 && !slices.ContainsFunc(waits, func(w Wait) bool { return w.ResumeAt == "" })
}

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

// CanReject reports whether a person may reject w. A question may be rejected regardless of its expected inputs.
func (w Wait) CanReject() bool { return w.YesOrNo() || w.Kind == WaitHuman || w.Kind == WaitSkill }

// CommandKind is the kind of a Command.
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

// Command is a request of Step to its driver. It stays in the pending list of the state until a fact answers it; recovery
// means performing the pending commands.
type Command struct {
	ID     string      `json:"id"` // unique in the run, derived; that of an iteration ends in "@" and its path
	Kind   CommandKind `json:"kind"`
	Node   string      `json:"node,omitempty"`
	Path   string      `json:"path,omitempty"`
	Sprite string      `json:"sprite,omitempty"`
	Call   *Call       `json:"call,omitempty"`
	Pair   *Pair       `json:"pair,omitempty"`
	// Durable requires a checkpoint to survive a loss of power before it is reported.
	Durable bool    `json:"durable,omitempty"`
	Action  *Action `json:"action,omitempty"`
	DelayS  float64 `json:"delay_s,omitempty"`
	Until   string  `json:"until,omitempty"` // RFC 3339; of a timer that goes off at an instant
	// Model is the request of DoModel, Again how many times it was repeated.
	Model *ModelRequest `json:"model,omitempty"`
	Again int           `json:"again,omitempty"`
	// Verification is the content that DoAttest signs.
	Verification *Verification `json:"verification,omitempty"`
}

// ErrConflict says that another driver has appended to the journal of the run, so this one no longer owns it.
var ErrConflict = errors.New("the run's log has moved on")

// CodePartlyDone is the code of the refusal of an action of which a part was performed before.
const CodePartlyDone = "partly_done"

// DoneInPart returns the message of a fault with the code CodePartlyDone, "" of any other.
func DoneInPart(f *protocol.Fault) string {
	if f == nil || f.Code != CodePartlyDone {
		return ""
	}
	return f.Message
}

// Refusal is a final error: a second try would give the same answer. Any other error of an effect means that its outcome
// is not known.
type Refusal struct{ Fault protocol.Fault }

func (r *Refusal) Error() string { return r.Fault.Message }
