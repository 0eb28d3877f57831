// Package ir is ExecIR, the document that a run executes. Start with Document for the format, and with Program, which is a
// document that package check has validated. Package expr has the two small languages inside of documents, value expressions
// and conditions, and package finding the errors and warnings about them. Everything here is pure: no I/O, no clock, no randomness, no map order in
// results; the same document and state give the same result on every machine. The engine runs nodes; this package does not.
//
//	reference   "$vars.a.b[0]", a path into one of the namespaces $vars $tmp $ctx $in $err
//	body        the graph that a MAP runs once for every item; one such run is an iteration
//	port        one output of a node; "result" is the whole output, any other a top-level member of it
//	finding     an error or warning of validation, with a JSON pointer into the document
//	failure     a failed node or evaluation; its kind is one of a fixed list
package ir

import (
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Version is the ExecIR version this runtime writes and the newest it reads.
const Version = "1.0"

// Document is an ExecIR document, field by field as facts of the format define it. Expr fields are value expressions.
type Document struct {
	Schema      string                     `json:"$schema,omitempty"`
	Version     string                     `json:"execir_version"`
	ID          string                     `json:"id,omitempty"`
	Revision    int                        `json:"revision,omitempty"`
	Description string                     `json:"description,omitempty"`
	Source      *Source                    `json:"source,omitempty"`
	InputSchema json.RawMessage            `json:"input_schema,omitempty"`
	Output      json.RawMessage            `json:"output,omitempty"`
	CtxRequires []string                   `json:"ctx_requires,omitempty"`
	Schemas     map[string]json.RawMessage `json:"schemas,omitempty"`   // JSON Schema 2020-12, by the name that nodes use
	Templates   map[string]string          `json:"templates,omitempty"` // pins: template id → "sha256:…"; another text is refused
	// PromptTemplates are templates of the document's own, by id, in addition to the built-in ones.
	PromptTemplates map[string]json.RawMessage `json:"prompt_templates,omitempty"`
	Tools           []string                   `json:"tools,omitempty"`         // allowlist
	ModelClasses    []string                   `json:"model_classes,omitempty"` // allowlist
	Subgraphs       map[string]Subgraph        `json:"subgraphs,omitempty"`     // by the name that SUBGRAPH nodes refer to
	Limits          *Limits                    `json:"limits,omitempty"`
	EntryNode       string                     `json:"entry_node"`
	Nodes           []Node                     `json:"nodes"`
	Edges           []Edge                     `json:"edges"`
	Meta            json.RawMessage            `json:"meta,omitempty"`
}

// Source names the document that an ExecIR document was compiled from.
type Source struct {
	WorkflowVersion string `json:"workflow_version,omitempty"`
	PlanIRVersion   string `json:"planir_version,omitempty"`
	WorkflowDigest  string `json:"workflow_digest,omitempty"`
	Compiler        string `json:"compiler,omitempty"`
}

// Limits bound a run. Zero means the default.
type Limits struct {
	MaxSteps      int     `json:"max_steps,omitempty"`       // default 1000
	MaxCalls      int     `json:"max_calls,omitempty"`       // calls of skills, attempts counted; default none
	MaxLLMCalls   int     `json:"max_llm_calls,omitempty"`   // requests to models, attempts counted; default none
	MaxTokens     int     `json:"max_tokens,omitempty"`      // of all requests to models, in and out
	MaxCostUSD    float64 `json:"max_cost_usd,omitempty"`    // of all requests to models, by the prices of their classes
	TimeoutS      float64 `json:"timeout_s,omitempty"`       // of the whole run, waiting for people excluded; default none
	MaxParallel   int     `json:"max_parallel,omitempty"`    // calls under way at once, default DefaultMaxParallel
	MaxStateBytes int     `json:"max_state_bytes,omitempty"` // default 1 MiB
}

// DefaultMaxParallel is limits.max_parallel where a document does not say.
const DefaultMaxParallel = 4

// Edge leads from one node to another; the outgoing edges of a node are tried in order (larger
// priority first, then as they stand) and the first true one wins.
type Edge struct {
	From          string     `json:"from"`
	To            string     `json:"to"`
	When          *expr.Cond `json:"when,omitempty"`
	Priority      int        `json:"priority,omitempty"`
	MaxTraversals int        `json:"max_traversals,omitempty"`
}

// Program is a validated document with the manifests of its tools, ready to be stepped. It is immutable.
type Program struct {
	Doc    Document
	Digest string                     // sha256 over the RFC 8785 form of the document
	Tools  map[string]manifests.Skill // by skill name
	nodes  map[string]*Node           // those of bodies, too
	out    map[string][]Edge
	wide   map[string]int // iterations at once, by id of a MAP or PARALLEL
	subs   map[string]Inner
	homes  map[string]*Document // documents of the nodes of subgraphs, by id of the node
	marked map[string]bool      // nodes that others name in restore
}

// Marked reports whether a node is named in the restore of another one, so that the files before its last call are kept.
func (p *Program) Marked(id string) bool { return p.marked[id] }

// Node returns the node with this id, in whatever body it is, or nil. A node of a subgraph has an id "name:id".
func (p *Program) Node(id string) *Node { return p.nodes[id] }

// Out returns the outgoing edges of a node in the order in which they are tried.
func (p *Program) Out(id string) []Edge { return p.out[id] }
