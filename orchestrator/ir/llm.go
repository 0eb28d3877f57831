package ir

// Validator is one check of a model's output, besides output_schema, which is always checked first.
type Validator struct {
	Type    string `json:"type"`              // json_schema | invariant | choice_in_candidates | label_in_set | no_extra_text | max_chars
	Schema  string `json:"schema,omitempty"`  // json_schema: name of a schema
	Expr    string `json:"expr,omitempty"`    // invariant: a condition as text, such as "$out.id in $in.candidates[*].id"
	AST     *Cond  `json:"ast,omitempty"`     // invariant: the same as a condition; $out is the output, $in the projected inputs
	Message string `json:"message,omitempty"` // invariant: what the repair packet says
	Max     int    `json:"max,omitempty"`     // max_chars: of every text in the output
}

// RetryPolicy says how often a model of one class is asked, and how.
type RetryPolicy struct {
	Strategy    string `json:"strategy"`               // PATCH_JSON_FROM_ERROR | REGENERATE | NONE
	MaxAttempts int    `json:"max_attempts,omitempty"` // calls in that class, the first included: 1 to 5, default 2
}

// Escalation hands a node to a higher model class after these failures.
type Escalation struct {
	On          []string `json:"on"` // failure kinds
	ToClass     string   `json:"to_model_class"`
	MaxAttempts int      `json:"max_attempts,omitempty"` // default 1
	Carry       string   `json:"carry,omitempty"`        // packet (default): what went wrong comes along | fresh
}

// Escalations are tried in their order. A document may write a single one without the list around it.
type Escalations []Escalation

// checkLLM checks an LLM_… node: its model class, template, schemas, validators and policies.
func (g *graph) checkLLM(n *Node, ptr string) {
	g.checkInputs(n, ptr)
	g.checkExprText(n.Labels, ptr+"/labels")
	g.checkExprText(n.Candidates, ptr+"/candidates")
}

// portsLLM lists the top-level members of what an LLM_… node puts out, nil when they are not known.
func (g *graph) portsLLM(*Node) []string { return nil }
