// Package ir is ExecIR: the document that a run executes, its validation, and the two small languages inside it, value
// expressions (Eval) and conditions (Cond).
//
// Start with Document for the format and Parse for the way in: Parse reads a document strictly, checks everything that
// can be known before the run, and answers with a Program or with all findings at once. Everything here is pure: no
// I/O, no clock, no randomness, no map order in results; the same document and the same state give the same answer on
// every machine. Nothing here runs a node: that is the engine's.
//
//	reference   "$vars.a.b[0]", a path into one of the namespaces $vars $tmp $ctx $in $err
//	body        the graph that a MAP runs once for every item, an iteration
//	port        one output of a node; "result" is the whole output, any other a top-level member of it
//	finding     one remark of validation, with a JSON pointer into the document
//	failure     a node or an evaluation that failed, of one of the closed list of kinds
package ir

import (
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
)

// Version is the ExecIR version this runtime writes and the newest it reads.
const Version = "1.0"

// Op is what a node does.
type Op string

const (
	OpToolCall Op = "TOOL_CALL"
	OpPack     Op = "PACK"
	OpSwitch   Op = "SWITCH"
	OpHuman    Op = "HUMAN"
	OpMerge    Op = "MERGE"
	OpMap      Op = "MAP"
)

// Document is an ExecIR document, field by field as facts of the format define it. Expr fields are value expressions.
type Document struct {
	Schema       string                     `json:"$schema,omitempty"`
	Version      string                     `json:"execir_version"`
	ID           string                     `json:"id,omitempty"`
	Revision     int                        `json:"revision,omitempty"`
	Description  string                     `json:"description,omitempty"`
	Source       *Source                    `json:"source,omitempty"`
	InputSchema  json.RawMessage            `json:"input_schema,omitempty"`
	Output       json.RawMessage            `json:"output,omitempty"`
	CtxRequires  []string                   `json:"ctx_requires,omitempty"`
	Schemas      map[string]json.RawMessage `json:"schemas,omitempty"`
	Templates    map[string]string          `json:"templates,omitempty"`
	Tools        []string                   `json:"tools,omitempty"`
	ModelClasses []string                   `json:"model_classes,omitempty"`
	Limits       *Limits                    `json:"limits,omitempty"`
	EntryNode    string                     `json:"entry_node"`
	Nodes        []Node                     `json:"nodes"`
	Edges        []Edge                     `json:"edges"`
	Meta         json.RawMessage            `json:"meta,omitempty"`
}

// Source says what a document was compiled from.
type Source struct {
	WorkflowVersion string `json:"workflow_version,omitempty"`
	PlanIRVersion   string `json:"planir_version,omitempty"`
	WorkflowDigest  string `json:"workflow_digest,omitempty"`
	Compiler        string `json:"compiler,omitempty"`
}

// Limits bound a run. Zero means the default.
type Limits struct {
	MaxSteps      int     `json:"max_steps,omitempty"` // default 1000
	MaxLLMCalls   int     `json:"max_llm_calls,omitempty"`
	MaxTokens     int     `json:"max_tokens,omitempty"`
	MaxCostUSD    float64 `json:"max_cost_usd,omitempty"`
	TimeoutS      float64 `json:"timeout_s,omitempty"`       // of the whole run, waiting for people excluded; default none
	MaxParallel   int     `json:"max_parallel,omitempty"`    // calls under way at once, default DefaultMaxParallel
	MaxStateBytes int     `json:"max_state_bytes,omitempty"` // default 1 MiB
}

// DefaultMaxParallel is limits.max_parallel where a document does not say.
const DefaultMaxParallel = 4

// Node is one node; which fields belong to which op is checked by Validate.
type Node struct {
	ID         string                     `json:"id"`
	Op         Op                         `json:"op"`
	Inputs     map[string]json.RawMessage `json:"inputs,omitempty"`     // PACK, HUMAN: port → value expression
	Outputs    map[string]string          `json:"outputs,omitempty"`    // port → "$vars.x" | "$tmp.x"
	Projection map[string][]string        `json:"projection,omitempty"` // PACK, HUMAN: port → picked members, [] = whole
	TimeoutS   float64                    `json:"timeout_s,omitempty"`
	Retry      []Retry                    `json:"retry,omitempty"`
	Catch      []Catch                    `json:"catch,omitempty"`
	Meta       json.RawMessage            `json:"meta,omitempty"`

	// TOOL_CALL
	Tool           string          `json:"tool,omitempty"`
	Args           json.RawMessage `json:"args,omitempty"`        // value expression; members that become null are not sent
	SideEffect     manifests.Class `json:"side_effect,omitempty"` // may only be as strict as the manifest's or stricter
	IdempotencyKey json.RawMessage `json:"idempotency_key,omitempty"`
	Sprite         string          `json:"sprite,omitempty"` // default "main"

	// SWITCH
	Cases   []Case `json:"cases,omitempty"`
	Default string `json:"default,omitempty"` // name of the case that is chosen when none is true

	// HUMAN. The timeout is TimeoutS; OnTimeout is "fail" (default, kind human_timeout) or "default".
	Prompt    json.RawMessage   `json:"prompt,omitempty"` // value expression
	Choices   []string          `json:"choices,omitempty"`
	Expected  map[string]string `json:"expected_inputs,omitempty"` // see ExpectedInputs for the default
	Answer    json.RawMessage   `json:"default_answer,omitempty"`
	OnTimeout string            `json:"on_timeout,omitempty"`

	// MERGE; see Merge.
	From       []json.RawMessage `json:"from,omitempty"` // value expressions, in the order of merging
	Strategy   string            `json:"strategy,omitempty"`
	Key        string            `json:"key,omitempty"`         // by_key: the member that tells elements apart
	OnConflict string            `json:"on_conflict,omitempty"` // last (default) | first | error

	// MAP runs Body once for every element of Items, which the body knows as $item and $index. Each iteration has a $tmp
	// of its own, empty at first, and cannot write $vars. Port "result" is the list of the iterations' results in the
	// order of the items, with null where one failed; port "failures" lists {index,kind,message,node,attempt,data}.
	Items    json.RawMessage `json:"items,omitempty"` // value expression, an array
	As       string          `json:"as,omitempty"`    // "$item", if anything
	Body     *Body           `json:"body,omitempty"`
	MaxItems int             `json:"max_items,omitempty"` // required; more are limit_exceeded before the first iteration
	// Concurrency is how many iterations run at once, default 1, at most limits.max_parallel. A body that writes or asks
	// people runs one iteration at a time whatever it says (DESIGN 23); Parse warns of that.
	Concurrency int    `json:"concurrency,omitempty"`
	OnError     string `json:"on_error,omitempty"` // fail (default): the first failed item fails the MAP; collect
	// ToleratedFailures is how many items may fail under collect before the MAP does; nil is any number.
	ToleratedFailures *int            `json:"tolerated_failures,omitempty"`
	Result            json.RawMessage `json:"result,omitempty"` // value expression; default: the output of the iteration's last node
}

// Body is the graph of a MAP. Ids are unique in the whole document; edges and catches stay inside.
type Body struct {
	EntryNode string `json:"entry_node"`
	Nodes     []Node `json:"nodes"`
	Edges     []Edge `json:"edges,omitempty"`
}

// Values of Node.Strategy.
const (
	MergeShallow = "shallow"
	MergeDeep    = "deep"
	MergeConcat  = "concat"
	MergeByKey   = "by_key"
	MergePatch   = "merge_patch"
)

// Case is one case of a SWITCH.
type Case struct {
	Name string `json:"name"`
	When *Cond  `json:"when"`
}

// Retry is one retry rule; MaxAttempts counts all attempts, the first included.
type Retry struct {
	On          []string `json:"on"`
	MaxAttempts int      `json:"max_attempts,omitempty"` // default 4
	IntervalS   float64  `json:"interval_s,omitempty"`   // default 1
	BackoffRate float64  `json:"backoff_rate,omitempty"` // default 2
	MaxDelayS   float64  `json:"max_delay_s,omitempty"`
	Jitter      string   `json:"jitter,omitempty"` // none (default) | full, derived from the idempotency key
}

// Catch sends a failure to a node; Bind receives {kind,message,node,attempt,data}.
type Catch struct {
	On   []string `json:"on"`
	To   string   `json:"to"`
	Bind string   `json:"bind,omitempty"`
}

// Edge leads from one node to another; the outgoing edges of a node are tried in order (larger
// priority first, then as they stand) and the first true one wins.
type Edge struct {
	From          string `json:"from"`
	To            string `json:"to"`
	When          *Cond  `json:"when,omitempty"`
	Priority      int    `json:"priority,omitempty"`
	MaxTraversals int    `json:"max_traversals,omitempty"`
}

// Failure kinds, a closed list.
const (
	FailTimeout         = "timeout"
	FailTool            = "tool_error"
	FailToolUnavailable = "tool_unavailable"
	FailToolDenied      = "tool_denied"
	FailSchema          = "schema_failure"
	FailInvariant       = "invariant_failure"
	FailRef             = "ref_unresolved"
	FailStateType       = "state_type_error"
	FailNoEdge          = "no_edge_matched"
	FailLimit           = "limit_exceeded"
	FailCancelled       = "cancelled"
	FailHumanRejected   = "human_rejected"
	FailHumanTimeout    = "human_timeout"
)

// Failure is a failed evaluation or node.
type Failure struct {
	Kind    string          `json:"kind"`
	Message string          `json:"message"`
	Node    string          `json:"node,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// Finding is one remark of validation; all are reported at once.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // error | warning
	Pointer  string `json:"pointer"`
	Message  string `json:"message"`
	Hint     string `json:"hint"`
}

// Program is a validated document with the manifests of its tools, ready to be stepped. It is immutable.
type Program struct {
	Doc    Document
	Digest string                     // sha256 over the RFC 8785 form of the document
	Tools  map[string]manifests.Skill // by skill name
	nodes  map[string]*Node           // those of bodies, too
	out    map[string][]Edge
	wide   map[string]int // iterations at once, by id of a MAP
}

// Node returns the node with this id, in whatever body it is, or nil.
func (p *Program) Node(id string) *Node { return p.nodes[id] }

// Out returns the outgoing edges of a node in the order in which they are tried.
func (p *Program) Out(id string) []Edge { return p.out[id] }

// Scope is what references are resolved against. Numbers are json.Number throughout. Absent roots are nil.
type Scope struct {
	Vars, Tmp, Ctx, In, Out, Err any

	element *element // of the innermost any, all or MAP
}

// WithItem is s inside of a MAP's iteration.
func (s Scope) WithItem(item any, index int) Scope {
	s.element = &element{value: item, index: index}
	return s
}
