package ir

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/spritekit/lattice/manifests/schemas"
	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Validator is one check of a model's output, besides output_schema, which is always checked first.
type Validator struct {
	Type    string     `json:"type"`              // json_schema | invariant | choice_in_candidates | label_in_set | no_extra_text | max_chars
	Schema  string     `json:"schema,omitempty"`  // json_schema: name of a schema
	Expr    string     `json:"expr,omitempty"`    // invariant: a condition as text, such as "$out.id in $in.candidates[*].id"
	AST     *expr.Cond `json:"ast,omitempty"`     // invariant: the same as a condition; $out is the output, $in the projected inputs
	Message string     `json:"message,omitempty"` // invariant: the message of the repair packet
	Max     int        `json:"max,omitempty"`     // max_chars: of every text in the output
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
	Carry       string   `json:"carry,omitempty"`        // packet (default): with a description of the failure | fresh
}

// Escalations are tried in their order. A document may write a single one without the list around it.
type Escalations []Escalation

// Bounds and defaults of questions to models.
const (
	DefaultOutputTokens = 1024
	MaxOutputTokens     = 1 << 20
	MaxAttempts         = 5
)

// Template returns the prompt template of a node. ok is false if it differs from the one that the node's document pins.
func (p *Program) Template(n *Node) (templates.Template, bool) {
	doc := p.documentOf(n)
	t, ok := doc.FindTemplate(n.PromptTemplate)
	pin := doc.Templates[n.PromptTemplate]
	return t, ok && (pin == "" || pin == t.SHA256)
}

// FindTemplate returns one of the document's own templates, else a built-in one.
func (d *Document) FindTemplate(id string) (templates.Template, bool) {
	own, ok := d.PromptTemplates[id]
	if !ok {
		return templates.Builtin(id)
	}
	t, err := templates.Parse(own)
	return t, err == nil && t.ID == id
}

// OutputSchema returns a schema by the name that a node uses: one of its document's own, else one that comes with lattice.
func (p *Program) OutputSchema(n *Node, name string) (json.RawMessage, bool) {
	return p.documentOf(n).FindOutputSchema(name)
}

// documentOf is the document in which a node stands.
func (p *Program) documentOf(n *Node) *Document {
	if doc, ok := p.homes[n.ID]; ok {
		return doc
	}
	return &p.Doc
}

func (d *Document) FindOutputSchema(name string) (json.RawMessage, bool) {
	if schema, ok := d.Schemas[name]; ok {
		return schema, true
	}
	return schemas.Builtin(name)
}

// ModelClasses lists the classes of models that the program's nodes may ask, sorted.
func (p *Program) ModelClasses() []string {
	var list []string
	for _, n := range p.nodes {
		if !n.Op.LLM() {
			continue
		}
		list = append(list, n.ModelClass)
		for _, e := range n.Escalation {
			list = append(list, e.ToClass)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Climb is one step of an escalation.
type Climb struct{ From, To string }

// Climbs lists the escalations that the program's nodes may make, sorted.
func (p *Program) Climbs() []Climb {
	var list []Climb
	for _, n := range p.nodes {
		from := n.ModelClass
		for _, e := range n.Escalation {
			list = append(list, Climb{from, e.ToClass})
			from = e.ToClass
		}
	}
	slices.SortFunc(list, func(a, b Climb) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return slices.Compact(list)
}

// ImplicitPorts are inputs that a node has by its other members.
func (n *Node) ImplicitPorts() []string {
	switch {
	case n.Op == OpLLMClassify:
		return []string{"labels"}
	case n.Candidates != nil:
		return []string{"candidates"}
	}
	return nil
}
