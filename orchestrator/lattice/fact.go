package lattice

import (
	"encoding/json"
	"path"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Fact is something that happened and that a run believes: the input of engine.Step. Bodies are pure; sequence and
// time are set by the driver and lie outside any comparison.
//
// CommandID ties a fact to the pending command that it answers; only it is matched. The driver derives CallID
// from the run's secret; Step only passes it on, so that Step never needs the secret.
type Fact interface{ FactType() string }

// RunStarted opens a run. Ctx becomes $ctx, Input becomes $in. Both are frozen.
type RunStarted struct {
	RunID    string          `json:"run_id"`
	WorkItem string          `json:"work_item_id"`
	Program  string          `json:"program"` // digest of the ExecIR document
	Sprite   string          `json:"sprite"`  // name of the main sprite, "" when the flow calls no skill
	Input    json.RawMessage `json:"input"`
	Ctx      json.RawMessage `json:"ctx"`
	Grants   []string        `json:"grants"`
	// Disk names the run of the machine and the mount of the disk on which the sprites are; "" where nothing is known of
	// that, as of a remote host. See PowerLost.
	Disk string `json:"disk,omitempty"`
	// AskWorld has the run wait for approval before it calls a skill of class world, but for those that ApproveWorld names.
	AskWorld     bool     `json:"ask_world,omitempty"`
	ApproveWorld []string `json:"approve_world,omitempty"`
	// BelowExec has calls with the permission exec grant the permissions of the run to the skills that their programs call; see
	// Call.Below. Runs of older versions lack it, so that their journals are replayed unchanged.
	BelowExec bool `json:"below_exec,omitempty"`
}

// RunForked opens a run that continues from a moment of another one, with a copy of its sprite's files. State is the other
// run's state at that moment, Set the changes to it.
type RunForked struct {
	RunID    string          `json:"run_id"`
	WorkItem string          `json:"work_item_id"`
	Program  string          `json:"program"`
	Sprite   string          `json:"sprite"`
	From     string          `json:"from_run_id"`
	Moment   Moment          `json:"moment"`
	Pair     *Pair           `json:"pair,omitempty"` // of the other run's sprite; nil when there are no files to copy
	State    json.RawMessage `json:"state"`
	Set      []Assignment    `json:"set,omitempty"`
	Ctx      json.RawMessage `json:"ctx,omitempty"` // members of $ctx that are this run's own
	Disk     string          `json:"disk,omitempty"`
}

// Assignment is a value for a path such as $vars.x.
type Assignment struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// Rewound takes a run back to an earlier moment of its own. No fact is deleted: those in between no longer count, and the epoch
// rises. State is the run's state at that moment, according to the journal.
type Rewound struct {
	Moment Moment          `json:"moment"`
	Pair   *Pair           `json:"pair,omitempty"` // the checkpoint to restore; nil if the files have not changed
	State  json.RawMessage `json:"state"`
	By     string          `json:"by"`
	Disk   string          `json:"disk,omitempty"`
	// Models are those that the run asks from now on, nil for those of before. They are the driver's: Step carries them along.
	Models *Models `json:"models,omitempty"`
}

// PowerLost says that the machine or the disk of the sprites was restarted, so that files which were not synced may be
// torn. The run goes back to State, the state behind the fact Seq, whose pending commands are issued again when the files of
// all Sprites are restored. Facts after that one no longer count. Without State only files of the main sprite are lost.
type PowerLost struct {
	Disk  string          `json:"disk"`
	Seq   Seq             `json:"seq"`
	Pair  Pair            `json:"pair"` // of the main sprite; without a checkpoint id the sprite is made again
	State json.RawMessage `json:"state,omitempty"`
	// Sprites are the sprites in use at that place, the main one first, and the files that they get.
	Sprites []SpriteBack `json:"sprites,omitempty"`
	// Records are the effects on the world that lie behind Seq. None is repeated.
	Records []Record `json:"records,omitempty"`

	// Fact is of older versions, which restored the main sprite alone: State is that before the fact Seq, which is applied again.
	FactKind string          `json:"fact_type,omitempty"`
	Fact     json.RawMessage `json:"fact,omitempty"`
}

// SpriteBack is a sprite whose files go back. Its events up to the entry EventsTo still count: of a call that goes on from a turn,
// those up to this turn.
type SpriteBack struct {
	Pair     Pair `json:"pair"`
	EventsTo Seq  `json:"events_to"`
}

// Supersedes reports whether an event of a sprite, which stands before f in the journal, no longer counts.
func (f PowerLost) Supersedes(sprite string, seq Seq) bool {
	for _, b := range f.Sprites {
		if b.Pair.Sprite == sprite {
			return seq > b.EventsTo
		}
	}
	return len(f.State) > 0 && seq > f.Seq
}

// Attempt is one attempt at a call in one visit of a node.
type Attempt struct {
	Node   string `json:"node"`
	Path   string `json:"path,omitempty"`
	Visit  int    `json:"visit"`
	Number int    `json:"attempt"`
}

// Record is the outcome of an effect on the world: for a call, its result or that it was lost; for an action, the answer with
// which the call that requested it was resumed, or the action itself if it had begun: actions are idempotent.
type Record struct {
	Of       Attempt          `json:"of"`
	Action   string           `json:"action,omitempty"`
	Finished *CallFinished    `json:"finished,omitempty"`
	Lost     string           `json:"lost,omitempty"`
	Resume   *protocol.Resume `json:"resume,omitempty"`
	Do       *Action          `json:"do,omitempty"`
	Noted    *ActionNoted     `json:"noted,omitempty"` // the action that the call requested without waiting
}

// Moment is where a node is about to begin and nothing else is at work.
type Moment struct {
	Seq   Seq    `json:"seq"` // of the fact that led there; facts behind it come after the moment
	Node  string `json:"node"`
	Visit int    `json:"visit"`          // of the node in its iteration, from 1
	Path  string `json:"path,omitempty"` // of the iteration, "" for the flow itself
}

// Name returns the name of the node with the path of its iteration.
func (m Moment) Name() string { return path.Join(m.Path, m.Node) }

// Place returns m without the fact that led there, which is another one each time that a run goes back.
func (m Moment) Place() Moment {
	m.Seq = 0
	return m
}

// Prepared says that the main sprite exists, holds /skills, the repository bundle and task.json. Ctx is merged into $ctx.
type Prepared struct {
	CommandID string          `json:"command_id"`
	Ctx       json.RawMessage `json:"ctx,omitempty"`
}

// CallFinished carries a skill's own outcome: a result, or a failure that is the skill's.
type CallFinished struct {
	CommandID string          `json:"command_id"`
	CallID    string          `json:"call_id"`
	OK        bool            `json:"ok"`
	Exit      int             `json:"exit"`
	Data      json.RawMessage `json:"data,omitempty"`
	Fault     *protocol.Fault `json:"fault,omitempty"`
	Kind      string          `json:"kind,omitempty"` // failure kind for retry and catch (expr.FailTimeout, …), "" when OK
}

// CallBlocked says that a call ended, with any exit code, after a legacy question or blocked.
type CallBlocked struct {
	CommandID string            `json:"command_id"`
	CallID    string            `json:"call_id"`
	Exit      int               `json:"exit"`
	Question  protocol.Question `json:"question"`
}

// CallSuspended says that a skill emitted WAITING and ended. Verdict and Binding are set when it asked for an action.
type CallSuspended struct {
	CommandID    string                  `json:"command_id"`
	CallID       string                  `json:"call_id"`
	Reason       string                  `json:"reason"`
	CheckpointID string                  `json:"checkpoint_id"`
	Expected     map[string]string       `json:"expected_inputs,omitempty"`
	ResumeAt     string                  `json:"resume_at,omitempty"` // RFC 3339; see protocol.Waiting
	Request      *protocol.ActionRequest `json:"request,omitempty"`
	Action       *Action                 `json:"action,omitempty"`
	Verdict      Verdict                 `json:"verdict,omitempty"`
	DenyReason   string                  `json:"deny_reason,omitempty"`
}

// CallLost says that a call was cut off and that its outcome could not be found: neither a result nor a refusal.
type CallLost struct {
	CommandID string `json:"command_id"`
	CallID    string `json:"call_id"`
	Detail    string `json:"detail"`
	Continues bool   `json:"continues,omitempty"` // the skill goes on with the files as they are; see manifests.Skill
	Watched   bool   `json:"watched,omitempty"`   // the leader that made the call saw it die, so that the end of a leader is not the cause
}

// BoundaryTaken pairs this journal position with a checkpoint of the sprite.
type BoundaryTaken struct {
	CommandID string `json:"command_id"`
	Pair      Pair   `json:"pair"`
}

// Restored says that the sprite's files are again those of Pair.
type Restored struct {
	CommandID string `json:"command_id"`
	Pair      Pair   `json:"pair"`
}

// Answered is a person's decision on a wait. Inputs are already converted to the wait's expected_inputs.
type Answered struct {
	WaitID   string          `json:"wait_id"`
	Decision Decision        `json:"decision"`
	Inputs   json.RawMessage `json:"inputs,omitempty"`
	Comments string          `json:"comments,omitempty"`
	By       string          `json:"by"`
	At       string          `json:"at,omitempty"` // RFC 3339; handed on in resume.json, decides nothing
}

// ActionDone is the outcome of a fulfilled, refused or failed action.
type ActionDone struct {
	CommandID string          `json:"command_id"`
	Key       string          `json:"key"`
	OK        bool            `json:"ok"`
	Result    json.RawMessage `json:"result,omitempty"`
	Fault     *protocol.Fault `json:"fault,omitempty"`
}

// ActionNoted records a non-blocking ACTION_REQUEST and its outcome; it never changes the course of the run. An action
// that is performed is noted twice: as begun before its effect, and with its outcome.
type ActionNoted struct {
	Action  Action   `json:"action"`
	Verdict Verdict  `json:"verdict"`
	Detail  string   `json:"detail,omitempty"`
	Of      *Attempt `json:"of,omitempty"` // that asked for it; nil in older journals
	Begun   bool     `json:"begun,omitempty"`
}

// ActionDecided is a person's decision on an action that ActionNoted left open. It is appended before anything is done
// about the action, and never changes the course of the run.
type ActionDecided struct {
	Key      string   `json:"key"`
	Action   string   `json:"action"`
	Decision Decision `json:"decision"` // Approve or Reject
	// ByHand says that the person did the action; an approval without it is followed by ActionSettled.
	ByHand   bool   `json:"by_hand,omitempty"`
	Comments string `json:"comments,omitempty"`
	By       string `json:"by"`
}

// ActionSettled is the outcome of an action that ActionDecided approved. After a failure the action is open again.
type ActionSettled struct {
	Key    string          `json:"key"`
	Action string          `json:"action"`
	OK     bool            `json:"ok"`
	Result json.RawMessage `json:"result,omitempty"`
	Fault  *protocol.Fault `json:"fault,omitempty"`
}

// TimerFired says that the delay of a timer command is over.
type TimerFired struct {
	CommandID string `json:"command_id"`
}

// CommandFailed says that a command other than a call failed for good (an unknown image, a refused repository).
type CommandFailed struct {
	CommandID string         `json:"command_id"`
	Fault     protocol.Fault `json:"fault"`
}

// CancelRequested asks the run to end as canceled.
type CancelRequested struct {
	By string `json:"by"`
}

func (RunStarted) FactType() string      { return "RunStarted" }
func (RunForked) FactType() string       { return "RunForked" }
func (Rewound) FactType() string         { return "Rewound" }
func (PowerLost) FactType() string       { return "PowerLost" }
func (Prepared) FactType() string        { return "Prepared" }
func (CallFinished) FactType() string    { return "CallFinished" }
func (CallBlocked) FactType() string     { return "CallBlocked" }
func (CallSuspended) FactType() string   { return "CallSuspended" }
func (CallLost) FactType() string        { return "CallLost" }
func (BoundaryTaken) FactType() string   { return "BoundaryTaken" }
func (Restored) FactType() string        { return "Restored" }
func (Answered) FactType() string        { return "Answered" }
func (ActionDone) FactType() string      { return "ActionDone" }
func (ActionNoted) FactType() string     { return "ActionNoted" }
func (ActionDecided) FactType() string   { return "ActionDecided" }
func (ActionSettled) FactType() string   { return "ActionSettled" }
func (TimerFired) FactType() string      { return "TimerFired" }
func (CommandFailed) FactType() string   { return "CommandFailed" }
func (CancelRequested) FactType() string { return "CancelRequested" }
