package protocol

import "encoding/json"

// Type is an event_type. Events of unknown types are kept but never acted on.
type Type string

// The nine event types of protocol v1.
const (
	TypeInfo                Type = "INFO"
	TypePhaseStarted        Type = "PHASE_STARTED"
	TypePhaseFinished       Type = "PHASE_FINISHED"
	TypeActionRequest       Type = "ACTION_REQUEST"
	TypeArtifact            Type = "ARTIFACT"
	TypeWaiting             Type = "WAITING"
	TypeCompleted           Type = "COMPLETED"
	TypeError               Type = "ERROR"
	TypeEnvironmentProposal Type = "ENVIRONMENT_PROPOSAL"
)

// Event is one envelope. Raw is the compact JSON of the whole envelope as it was read or will be written, including
// unknown members; the named fields are decoded from it.
type Event struct {
	ProtocolVersion string          `json:"protocol_version"`
	Type            Type            `json:"event_type"`
	EventID         string          `json:"event_id,omitempty"` // ULID
	CallID          string          `json:"call_id,omitempty"`
	SpriteID        string          `json:"sprite_id"`
	WorkItemID      string          `json:"work_item_id"`
	Timestamp       string          `json:"timestamp"`
	Payload         json.RawMessage `json:"payload"`

	Raw    json.RawMessage `json:"-"`
	Legacy bool            `json:"-"` // converted from a lower-case legacy event
}

// Payload is the typed body of an event.
type Payload interface{ EventType() Type }

// Info is a non-blocking message.
type Info struct {
	Message  string          `json:"message"`
	Kind     string          `json:"kind,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// KindAgentTurn is the kind of the INFO event that tells that a turn of an agent was kept, or why it was not.
const KindAgentTurn = "agent_turn"

// AgentTurn is the metadata of a KindAgentTurn event: the checkpoint holds the files and the agent's session as they were after
// one answer of the model and the results of its tools.
type AgentTurn struct {
	Turn         int    `json:"turn"` // of the step, as the agent counts
	Agent        string `json:"agent"`
	CheckpointID string `json:"checkpoint_id"`    // empty if the turn was not kept
	Reason       string `json:"reason,omitempty"` // for which it was not, one of those below
	Tool         string `json:"tool"`             // the last one that the agent used
	Milliseconds int64  `json:"duration_ms"`      // that the agent was stopped
	Spent        Spent  `json:"spent"`            // by its call up to here
}

// Spent is what an agent took. The cost is 0 if it is not known.
type Spent struct {
	Tokens       int64   `json:"tokens"`
	CostUSD      float64 `json:"cost_usd"`
	Milliseconds int64   `json:"duration_ms"`
}

// Reasons for which a turn is not kept.
const (
	TurnWentOn    = "went_on"   // the agent, before it was stopped
	TurnEnded     = "ended"     // the agent, before it was stopped
	TurnUnwritten = "unwritten" // the results of the tools to the session
	TurnUnnamed   = "unnamed"   // the session
	TurnFailed    = "failed"    // a checkpoint, and no other is tried
)

// TurnComment begins the comment of such a checkpoint.
const TurnComment = "turn of an agent"

// PhaseStarted reports the start of a logical phase of work.
type PhaseStarted struct {
	Phase string `json:"phase"`
}

// PhaseFinished reports the outcome of a phase.
type PhaseFinished struct {
	Phase   string `json:"phase"`
	Success bool   `json:"success"`
}

// ActionRequest asks the orchestrator for an external action. With Blocking a WAITING follows at once.
type ActionRequest struct {
	Action     string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`
	Blocking   bool            `json:"blocking"`
}

// Actions of v1, and those that DESIGN 20 adds.
const (
	ActionOpenPR          = "OPEN_PR"
	ActionPostComment     = "POST_COMMENT"
	ActionLabelIssue      = "LABEL_ISSUE"
	ActionNotifyUser      = "NOTIFY_USER"
	ActionFetchCredential = "FETCH_CREDENTIAL"
	ActionPushBranch      = "PUSH_BRANCH"
	ActionUseTool         = "USE_TOOL"
	ActionOpenIssues      = "OPEN_ISSUES"
)

// PushBranch holds the parameters of PUSH_BRANCH. Base and Head are full commit ids; Bundle is a path in the sprite. The pushes of
// Also are performed after this one, in their order, and one approval covers all of them.
type PushBranch struct {
	Branch string `json:"branch"`
	Base   string `json:"base"`
	Head   string `json:"head,omitempty"`
	Bundle string `json:"bundle"`
	SHA256 string `json:"sha256"`
	Title  string `json:"title,omitempty"`
	Repo   string `json:"repo,omitempty"`

	Also []AlsoPush `json:"also,omitempty"`
}

// Artifact declares a work product; it requests nothing.
type Artifact struct {
	Kind     string          `json:"kind"`
	Ref      string          `json:"ref,omitempty"`
	URL      string          `json:"url,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Waiting reports that the sprite is paused at a checkpoint until its inputs arrive.
type Waiting struct {
	Reason         string            `json:"reason"`
	CheckpointID   string            `json:"checkpoint_id"`
	ExpectedInputs map[string]string `json:"expected_inputs,omitempty"` // name → string integer boolean map array<T>
	ResumeAt       string            `json:"resume_at,omitempty"`       // RFC 3339; the call is resumed then if nothing was answered
}

// Completed ends the life of a work item.
type Completed struct {
	Status  string `json:"status"` // success | failure
	Summary string `json:"summary,omitempty"`
}

// Error is an unrecoverable failure.
type Error struct {
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"`
}

// EnvironmentProposal suggests an improvement of the environment; it takes effect in later runs only.
type EnvironmentProposal struct {
	ObservedFailure     ObservedFailure     `json:"observed_failure"`
	SuggestedAdjustment SuggestedAdjustment `json:"suggested_adjustment"`
	Confidence          float64             `json:"confidence"`
	Evidence            []string            `json:"evidence"`
	Scope               string              `json:"scope"`
}

// ObservedFailure describes a failure in the sprite.
type ObservedFailure struct {
	Phase      string `json:"phase"`
	ExitCode   int    `json:"exit_code"`
	StderrHint string `json:"stderr_hint"`
}

// SuggestedAdjustment is one of the eight structured changes that v1 allows.
type SuggestedAdjustment struct {
	Type    string          `json:"type"`
	Details json.RawMessage `json:"details"`
}

func (Info) EventType() Type                { return TypeInfo }
func (PhaseStarted) EventType() Type        { return TypePhaseStarted }
func (PhaseFinished) EventType() Type       { return TypePhaseFinished }
func (ActionRequest) EventType() Type       { return TypeActionRequest }
func (Artifact) EventType() Type            { return TypeArtifact }
func (Waiting) EventType() Type             { return TypeWaiting }
func (Completed) EventType() Type           { return TypeCompleted }
func (Error) EventType() Type               { return TypeError }
func (EnvironmentProposal) EventType() Type { return TypeEnvironmentProposal }
