// Package api is the leader's HTTP interface: wire types, the handler that serves them and the client that every
// command uses, over the leader's unix socket. Start with Service: what a leader must be able to do. The handler
// translates HTTP to Service and errors to problem JSON; it decides nothing itself.
package api

import (
	"encoding/json"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Version of this interface. A client asks an older leader to hand over.
const Version = 1

// Hello is GET /v1/lattice.
type Hello struct {
	API       int    `json:"api"`
	Version   string `json:"version"`
	PID       int    `json:"pid"`
	Home      string `json:"home"`
	Isolation string `json:"isolation"`         // "" with a remote Sprites API
	Sandbox   string `json:"sandbox"`           // how sprites are kept apart, in words
	Warning   string `json:"warning,omitempty"` // what a person must know before running anything in a sprite
}

// RunRequest is POST /v1/runs.
type RunRequest struct {
	Flow  json.RawMessage `json:"flow"` // ExecIR document
	Input json.RawMessage `json:"input,omitempty"`
	Options
}

// Options of a run; they are kept with its record.
type Options struct {
	FlowName           string   `json:"flow_name,omitempty"`
	Repo               string   `json:"repo,omitempty"` // URL or absolute path
	Ref                string   `json:"ref,omitempty"`
	IncludeUncommitted bool     `json:"include_uncommitted,omitempty"`
	Sprite             string   `json:"sprite,omitempty"`
	OwnSprite          bool     `json:"own_sprite,omitempty"` // the sprite was made for this run
	Grants             []string `json:"grants,omitempty"`
	WorkItem           string   `json:"work_item_id,omitempty"`
	Goal               string   `json:"goal,omitempty"`
	Keep               bool     `json:"keep,omitempty"`
	Tools              []string `json:"tools,omitempty"` // host paths that the run's own sprite sees read-only
	// AgentEnv names variables whose values are in Secrets; only agent.run gets them, and they are never stored.
	AgentEnv []string          `json:"agent_env,omitempty"`
	Secrets  map[string]string `json:"secrets,omitempty"`
}

// RunView is what there is to know about a run.
type RunView struct {
	RunID     string            `json:"run_id"`
	Flow      string            `json:"flow,omitempty"`
	WorkItem  string            `json:"work_item_id"`
	Status    lattice.RunStatus `json:"status"`
	Driving   bool              `json:"driving"` // a leader works on it now
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
	Note      string            `json:"note,omitempty"` // why nobody drives it
	LastSeq   lattice.Seq       `json:"last_seq"`
	AgentEnv  []string          `json:"agent_env,omitempty"` // names of variables that agents of this run get
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

// WatchLine is one line of GET /v1/runs/{id}/watch: an entry, or the view after it. The last line has Done set: the
// run is final, waits for a person, or nobody drives it any more.
type WatchLine struct {
	Entry *lattice.Entry `json:"entry,omitempty"`
	View  *RunView       `json:"view,omitempty"`
	Done  bool           `json:"done,omitempty"`
}

// DecideRequest is POST /v1/runs/{id}/decide.
type DecideRequest struct {
	WaitID   string            `json:"wait_id,omitempty"` // may be left out while exactly one wait is open
	Decision lattice.Decision  `json:"decision"`
	Inputs   map[string]string `json:"inputs,omitempty"` // k=v as typed; converted to the wait's expected_inputs
	Typed    json.RawMessage   `json:"typed,omitempty"`  // k:=json values, an object
	Comments string            `json:"comments,omitempty"`
	By       string            `json:"by"`
	Secrets  map[string]string `json:"secrets,omitempty"` // see Options
}

// DecideReply says what became of a decision. Duplicate means that the same decision had been made before.
type DecideReply struct {
	WaitID    string  `json:"wait_id"`
	Duplicate bool    `json:"duplicate,omitempty"`
	Run       RunView `json:"run"`
}

// Problem is the body of every error answer; Exit is the exit code a command should end with.
type Problem struct {
	Fault protocol.Fault `json:"error"`
	Exit  int            `json:"exit"`
}

func (p *Problem) Error() string { return p.Fault.Message }
