package compile

import (
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
)

// Version is the version of workflow graphs that this compiler writes, and the newest that it reads.
const Version = "1.0"

var workflowFormat = ir.Format{Name: "workflow graph", Member: "workflow_version", Version: Version}

// Workflow is a workflow graph, the form in which people and visual editors write flows. Lattice lowers it to ExecIR.
type Workflow struct {
	// The schema of this document, for editors.
	Schema string `json:"$schema,omitempty"`
	// The version of the format, MAJOR.MINOR.
	Version string `json:"workflow_version"`
	// The name of the flow.
	ID string `json:"id,omitempty"`
	// Counts the author's editions of the flow.
	Revision int `json:"revision,omitempty"`
	// A description of the flow.
	Description string `json:"description,omitempty"`
	// A JSON schema of the flow's input.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// Members of $ctx without which a run does not start, such as "repo".
	CtxRequires []string `json:"ctx_requires,omitempty"`
	// Bounds of a run.
	Limits *ir.Limits `json:"limits,omitempty"`
	// The step that runs first. It may be left out when exactly one step has no edge leading to it.
	EntryNode string `json:"entry_node,omitempty"`
	// The steps.
	Nodes []Step `json:"nodes"`
	// The ways from step to step. The edges that leave a step are tried in order, and the first that holds is taken.
	Edges []ir.Edge `json:"edges,omitempty"`
	// The result of a run, a value expression; without it, the outputs of all steps by their ids.
	Output json.RawMessage `json:"output,omitempty"`
	// The author's own.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Step is one node of a workflow graph: a call of a skill, whose output is $vars.ID for later steps, or a step type as in
// plans, whose output O is $vars.ID.O. outputs can name other targets.
type Step struct {
	// The name of the step in edges and references.
	ID string `json:"id"`
	// The name of a skill, such as "git.clone", "tool" with the skill named by tool, or a step type, such as "FIND_CONTACT".
	Type string `json:"type"`
	// The name of the skill, for type "tool".
	Tool string `json:"tool,omitempty"`
	// A label to show instead of the id.
	Label string `json:"label,omitempty"`
	// The skill's inputs by name, as value expressions: "$in.x" is an input of the flow, "$vars.ID.x" an output of a step.
	In json.RawMessage `json:"in,omitempty"`
	// Where outputs are kept, by the name of the output ("result" is all of them): "$vars.x", or "$tmp.x" when the run's
	// result need not have it. Without it, all of them in $vars.ID.
	Outputs map[string]string `json:"outputs,omitempty"`
	// A class for the call, if it is stricter than the class in the skill's manifest.
	SideEffect manifests.Class `json:"side_effect,omitempty"`
	// How long the call may take, in seconds.
	TimeoutS float64 `json:"timeout_s,omitempty"`
	// When and how often the call is tried again.
	Retry []ir.Retry `json:"retry,omitempty"`
	// Where a failure leads.
	Catch []ir.Catch `json:"catch,omitempty"`
	// The author's own.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// Skill names the skill that the step calls, "" when it names none.
func (s *Step) Skill() string {
	if s.Type == typeTool {
		return s.Tool
	}
	return s.Type
}

// typeTool is the type of a step whose skill is named by its member tool.
const typeTool = "tool"

// abstractTypes are names that visual editors give to steps whose skill is not chosen yet. The step types of the
// same names in capitals do.
var abstractTypes = []string{"choose", "classify", "extract_intent", "pack", "write"}
