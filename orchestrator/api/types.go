// Package api is the leader's HTTP interface: wire types, the handler that serves them and the client that every
// command uses, over the leader's unix socket. Start with Service, which a leader implements. The handler
// translates HTTP to Service and errors to problem JSON; it decides nothing itself.
package api

import (
	"encoding/json"
	"time"

	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Version of this interface. A newer client asks an older leader to hand over; see Hello. A new route, parameter or member of a request,
// which an older leader refuses, raises it; a test compares it with the description.
const Version = 3

// Oldest is the oldest version of this interface that a leader of this build still serves. Older clients take a page for a whole list.
const Oldest = 3

// Hello is GET /api/v1/lattice, the first thing that two processes say to each other. Together with the hand-over it is the
// part of this interface that never changes but by new members, so that any two versions can settle who leads:
//
//	client newer than the leader            POST /api/v1/lattice/handover, then it leads
//	client older, but not below Oldest      it is served
//	client older than that                  it ends and says so
type Hello struct {
	API       int    `json:"api"`
	Oldest    int    `json:"oldest_api,omitempty"` // of the clients that are served
	Version   string `json:"version"`              // of the build
	Ending    bool   `json:"ending,omitempty"`     // it takes on nothing more
	Serving   bool   `json:"serving,omitempty"`    // lattice serve leads, not a command that ends with its work
	PID       int    `json:"pid"`
	Home      string `json:"home"`
	Isolation string `json:"isolation"`         // "" with a remote Sprites API
	Sandbox   string `json:"sandbox"`           // how sprites are kept apart, in words
	Warning   string `json:"warning,omitempty"` // for people, before they run anything in a sprite
	Runs      int    `json:"runs"`              // that the store holds
	Driven    int    `json:"driven"`            // those of them that the process drives now
	// Network and HostPorts are the flags of lattice serve. They apply to commands without flags of their own.
	Network   string   `json:"network,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitempty"`
	// HTTP is the URL of the page and of the interface for callers with tokens, "" if the leader is not served there.
	HTTP string `json:"http,omitempty"`
	// Settings are digests of those settings that hold for as long as the process leads, by name.
	Settings map[string]string `json:"settings,omitempty"`
}

// RunRequest is POST /api/v1/runs.
type RunRequest struct {
	Flow  json.RawMessage `json:"flow"` // workflow graph or ExecIR document
	Input json.RawMessage `json:"input,omitempty"`
	// Key makes starting twice the same as starting once: 16 random letters and digits (a-z, 2-7), which become the run's id.
	Key string `json:"key,omitempty"`
	// DryRun judges the run and does not start it.
	DryRun bool `json:"dry_run,omitempty"`
	// Alone refuses the run while another run of the same flow is open for its work item.
	Alone bool `json:"alone,omitempty"`
	// Detach has the run go on when the command that started it has ended.
	Detach bool `json:"detach,omitempty"`
	// Asked is the digest of a request with a key of its client's choice, which must not start another run.
	Asked string `json:"-"`
	Options
}

// DriveRequest is POST /api/v1/runs/{id}/drive.
type DriveRequest struct {
	Detach bool `json:"detach,omitempty"` // see RunRequest
	Values
}

// HandoverRequest is POST /api/v1/lattice/handover: the leader stops driving its runs where nothing is lost, answers, and
// ends its leadership. When the asker goes away before, or has waited long enough, it goes on.
type HandoverRequest struct {
	API     int     `json:"api"`
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	WaitS   float64 `json:"wait_s,omitempty"` // seconds; 0 = as long as the asker is there
}

// Handover holds the runs with which the next leader goes on: those that were driven without a follower. Followers come
// to the next leader by themselves.
type Handover struct {
	Runs []HandedRun `json:"runs,omitempty"`
}

// HandedRun is a run with the values that its agents get, which are in no store.
type HandedRun struct {
	RunID string `json:"run_id"`
	Values
}

// PruneRequest is POST /api/v1/prune. It never removes sprites that are in use, wait, are pinned or were made by hand.
type PruneRequest struct {
	DryRun bool    `json:"dry_run,omitempty"`
	Keep   int     `json:"keep"`              // number of the newest ended runs that are left alone
	OlderS float64 `json:"older_s,omitempty"` // seconds that a run must have been over; a mirror, unused (0 = 30 days)
	All    bool    `json:"all,omitempty"`     // also of failed runs, which keep their sprites otherwise
}

// Pruned is one thing that was removed, or would be.
type Pruned struct {
	Kind  string `json:"kind"` // sprite | repository | bundle | mirror
	Name  string `json:"name"`
	RunID string `json:"run_id,omitempty"`
	Bytes int64  `json:"bytes,omitempty"` // 0 if unknown, as of a remote sprite
	Error string `json:"error,omitempty"` // why it is still there
}

// CancelRequest is the body of a request to cancel a run.
type CancelRequest struct {
	By string `json:"by,omitempty"`
}

// Options of a run; they are kept with its record.
type Options struct {
	FlowName           string `json:"flow_name,omitempty"`
	Repo               string `json:"repo,omitempty"` // URL or absolute path
	Ref                string `json:"ref,omitempty"`
	IncludeUncommitted bool   `json:"include_uncommitted,omitempty"`
	Sprite             string `json:"sprite,omitempty"`
	OwnSprite          bool   `json:"own_sprite,omitempty"` // the sprite was made for this run
	// From is the checkpoint with whose files its own sprite begins; that sprite has the settings of the other one.
	From *SpriteCheckpoint `json:"from,omitempty"`
	// Siblings are further repositories, URL|PATH[@REF], for flows that use $ctx.siblings.
	Siblings []string `json:"siblings,omitempty"`
	// Copies are absolute paths of files and folders that are copied into the workspace before the run begins.
	Copies       []string `json:"copies,omitempty"`
	Image        string   `json:"image,omitempty"` // image of its own sprite; see sprites.Create.Image
	Grants       []string `json:"grants,omitempty"`
	ApproveWorld []string `json:"approve_world,omitempty"` // skills of class world that are called without being asked for
	WorkItem     string   `json:"work_item_id,omitempty"`
	Goal         string   `json:"goal,omitempty"`
	Intent       string   `json:"intent_id,omitempty"` // that the run carries out
	// Constraints and Acceptance tell agents the rules of the work, and when it is done; they are in task.json.
	Constraints map[string]any `json:"constraints,omitempty"`
	Acceptance  string         `json:"acceptance,omitempty"`
	Keep        bool           `json:"keep,omitempty"`
	Tools       []string       `json:"tools,omitempty"` // host paths that the run's own sprite sees read-only
	// Limits and MinIsolation are its own sprite's; as in sprites.Create.
	Limits       *sprites.Config `json:"limits,omitempty"`
	MinIsolation string          `json:"min_isolation,omitempty"`
	// Network, HostPorts and Spritekit are its own sprite's; as in sprites.Create. Where they are left out the leader's hold,
	// and are kept with the run.
	Network   string   `json:"network,omitempty"`
	HostPorts []uint16 `json:"host_ports,omitzero"`
	Spritekit string   `json:"spritekit,omitempty"`
	// Models are those that its flow may ask, as the settings named them when it started; nil leaves them to the leader.
	Models *lattice.Models `json:"models,omitempty"`
	// Skills are folders of drop-in skills on this machine, absolute, that the flow may call and its own sprite has.
	Skills []string `json:"skills,omitempty"`
	// AgentEnv names variables whose values are in Secrets; only agent.run gets them.
	AgentEnv []string `json:"agent_env,omitempty"`
	// Environment describes the accepted changes of the environment in the flow, Domains are names that its sprite may reach
	// because of them, and Trial is the proposal that the run verifies. The leader sets them.
	Environment []string `json:"environment,omitempty"`
	Domains     []string `json:"domains,omitempty"`
	Trial       string   `json:"trial,omitempty"`
	// Routes names the providers of models that its agents reach through the host, with a pass in place of the key.
	Routes []string `json:"routes,omitempty"`
	Values
}

// SpriteCheckpoint names a checkpoint of a sprite.
type SpriteCheckpoint struct {
	Sprite     string `json:"sprite"`
	Checkpoint string `json:"checkpoint"`
}

// Values are values of variables of the asker's environment. They are never stored.
type Values struct {
	Secrets   map[string]string `json:"secrets,omitempty"`    // of the variables that agents of the run get
	ModelKeys map[string]string `json:"model_keys,omitempty"` // of the variables in which model classes have their keys
}

// StartedWith holds the options with which a run was started. They apply whichever process leads.
type StartedWith struct {
	Network      string            `json:"network,omitempty"`
	HostPorts    []uint16          `json:"host_ports,omitempty"`
	Limits       *sprites.Config   `json:"limits,omitempty"`
	MinIsolation string            `json:"min_isolation,omitempty"`
	Image        string            `json:"image,omitempty"`
	From         *SpriteCheckpoint `json:"from,omitempty"`
	Siblings     []string          `json:"siblings,omitempty"`
	Copies       []string          `json:"copies,omitempty"` // host paths that were copied into its workspace
	Tools        []string          `json:"tools,omitempty"`
	Skills       []string          `json:"skills,omitempty"`
	Spritekit    string            `json:"spritekit,omitempty"`
	AgentEnv     []string          `json:"agent_env,omitempty"`   // names
	Environment  []string          `json:"environment,omitempty"` // accepted changes of the environment in its flow
	Domains      []string          `json:"domains,omitempty"`     // names that its sprite may reach because of them
	Trial        string            `json:"trial,omitempty"`       // the proposal that it verifies
	// Models are the digests of the model classes that its flow asks, by class; ModelKeys name the variables of their keys.
	Models    map[string]string `json:"models,omitempty"`
	ModelKeys []string          `json:"model_keys,omitempty"`
}

// RunView describes a run.
type RunView struct {
	RunID     string            `json:"run_id"`
	Flow      string            `json:"flow,omitempty"`
	WorkItem  string            `json:"work_item_id"`
	IntentID  string            `json:"intent_id,omitempty"`
	Status    lattice.RunStatus `json:"status"`
	Driving   bool              `json:"driving"`           // a leader works on it now
	Stopped   bool              `json:"stopped,omitempty"` // on request, since this leader leads
	Sprite    string            `json:"sprite,omitempty"`
	Repo      string            `json:"repo,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	Epoch     int               `json:"epoch"`
	Steps     int               `json:"steps"`
	Node      string            `json:"node,omitempty"` // where it stands
	Doing     string            `json:"doing,omitempty"`
	Waits     []lattice.Wait    `json:"waits,omitempty"`
	Outputs   json.RawMessage   `json:"outputs,omitempty"`
	Error     *RunError         `json:"error,omitempty"`
	Note      string            `json:"note,omitempty"`    // why it is not driven
	Problem   *fault.Error      `json:"problem,omitempty"` // the same, when something can be done about it
	LastSeq   lattice.Seq       `json:"last_seq"`
	AgentEnv  []string          `json:"agent_env,omitempty"` // names of variables that agents of this run get
	// MissingEnv names those of AgentEnv whose values the leader does not have.
	MissingEnv []string `json:"missing_env,omitempty"`
	// OpenActions is whether a person is to decide on an action that no run waits for; set only in the view of a single run.
	OpenActions bool `json:"open_actions,omitempty"`
	// StartedWith is set only in the view of a single run.
	StartedWith *StartedWith `json:"started_with,omitempty"`
	// Record names the run as seed 001 does; it is set only in the view of a single run.
	*Record
	// ResumedFrom is the run whose question was answered by this one's beginning; ContinuedIn is the other direction.
	ResumedFrom string `json:"resumed_from,omitempty"`
	ContinuedIn string `json:"continued_in,omitempty"`
	// ForkedFrom is the run from which this one went on, as RUN at NODE#VISIT.
	ForkedFrom string `json:"forked_from,omitempty"`
	// Models is the run's use of models, nil if it asked none.
	Models *ModelUse `json:"models,omitempty"`
	// Spent is the amount that its models and agents took, as far as their calls have ended.
	Spent budget.Amount `json:"spent,omitzero"`
	// Budgets are the budgets from which the run takes. They are set only in the view of a single run.
	Budgets []BudgetView `json:"budgets,omitempty"`
	// Copies are the copies of its sprite that the items of a failed run had, kept like the sprite to be looked into.
	Copies []string `json:"copies,omitempty"`
	// Notice holds notices for the person, a line each. Only a start and a rewind have any.
	Notice []string `json:"notice,omitempty"`
}

// Record holds the fields of a run record of seed 001 that have other names in RunView, or none.
type Record struct {
	SpriteName string `json:"sprite_name"`
	Mode       string `json:"mode"` // how its calls are executed: exec_ws
	// StreamRefs are paths of the leader's interface at which the events and the output of the run are read.
	StreamRefs []string           `json:"stream_refs"`
	Artifacts  []artifact.Product `json:"artifacts"`
}

// ModelUse is the use of models.
type ModelUse struct {
	Calls int `json:"llm_calls"`
	lattice.ModelUsage
	Nodes map[string]ModelUse `json:"nodes,omitempty"` // the same by node, of a run
}

// RunError is why a run failed.
type RunError struct {
	Kind    string          `json:"kind"`
	Message string          `json:"message"`
	Node    string          `json:"node,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Artifact is one ARTIFACT event of a run.
type Artifact struct {
	At     time.Time         `json:"at"`
	Sprite string            `json:"sprite,omitempty"`
	CallID string            `json:"call_id,omitempty"`
	Node   string            `json:"node,omitempty"`
	Value  protocol.Artifact `json:"artifact"`
}

// WatchLine is one line of GET /api/v1/runs/{id}/watch: an entry, or the view after it. The last line has Done set: the
// run is final, waits for a person, or is not driven.
type WatchLine struct {
	Entry *lattice.Entry `json:"entry,omitempty"`
	View  *RunView       `json:"view,omitempty"`
	Done  bool           `json:"done,omitempty"`
}

// DecideRequest is POST /api/v1/runs/{id}/decide.
type DecideRequest struct {
	WaitID   string            `json:"wait_id,omitempty"` // may be left out while exactly one wait is open
	Decision lattice.Decision  `json:"decision"`
	Inputs   map[string]string `json:"inputs,omitempty"` // k=v as typed; converted to the wait's expected_inputs
	Typed    json.RawMessage   `json:"typed,omitempty"`  // k:=json values, an object
	Comments string            `json:"comments,omitempty"`
	By       string            `json:"by"`
	Detach   bool              `json:"detach,omitempty"` // see RunRequest
	Values
}

// DecideReply is the outcome of a decision. Duplicate means that the same decision had been made before, by By at At;
// a different one that comes too late is refused with already_decided.
type DecideReply struct {
	WaitID    string  `json:"wait_id"`
	Duplicate bool    `json:"duplicate,omitempty"`
	By        string  `json:"by,omitempty"`
	At        string  `json:"at,omitempty"` // RFC 3339
	Run       RunView `json:"run"`
}

// RunLine is the last line that lattice run --json prints.
type RunLine struct {
	// The run's id.
	RunID string `json:"run_id"`
	// The view of a run that has ended, waits for a person, or is not driven.
	Status lattice.RunStatus `json:"status"`
	// The run's result, null when it has none.
	Outputs json.RawMessage `json:"outputs"`
	// Why the run failed, null when it did not.
	Error *RunError `json:"error"`
	// The waits of the run.
	Waits []lattice.Wait `json:"waits,omitempty"`
	// The reason why a run that has not ended is not driven, with the exit code of the command; the run can be resumed.
	Problem *fault.Error `json:"problem,omitempty"`
}
