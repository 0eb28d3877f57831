package compile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/manifests/steps"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Rules are the step types of plans, by name.
type Rules map[string]Rule

// Rule defines the ExecIR nodes of a step type. Strings of its nodes, and the targets of SET and outputs, can contain these
// marks:
//
//	$arg.name         an input, an expression of the plan; $arg.name.member is a member of it
//	$constraint.name  a constraint of the plan, or its default
//	$port.name        the target of an output
//	$local.name       a variable of this step
//
// A member or element whose value is the mark of an input that is neither given nor has a default is removed. Ids of nodes
// are prefixed with the id of the step: "S2.search". Every node without outgoing edges that does not end the run leads to
// the next step.
type Rule struct {
	Schema      string          `json:"$schema,omitempty"`
	Version     string          `json:"step_version"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Inputs      []RuleInput     `json:"inputs,omitempty"`
	Outputs     []RuleOutput    `json:"outputs,omitempty"`
	Constraints []RuleInput     `json:"constraints,omitempty"`
	EntryNode   string          `json:"entry_node"`
	Nodes       json.RawMessage `json:"nodes"`
	Edges       json.RawMessage `json:"edges,omitempty"`
	Meta        json.RawMessage `json:"meta,omitempty"`

	nodes, edges []any
}

// RuleInput is an input of a step, or a constraint that it uses.
type RuleInput struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"` // value expression; null: none
}

// RuleOutput is an output of a step.
type RuleOutput struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// RuleVersion is the version of rules that this compiler reads.
const RuleVersion = "1.0"

var (
	ruleFormat = ir.Format{Name: "step rule", Member: "step_version", Version: RuleVersion}
	ruleType   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) })
	ruleRef    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\$(arg|constraint|port|local)\.([A-Za-z_][A-Za-z0-9_-]*)((?:\.|\[).*)?$`)
	})
)

// BuiltinRules returns the built-in step types. The caller may change the map, but not the rules, which are shared.
func BuiltinRules() Rules { return maps.Clone(builtinRules()) }

var builtinRules = sync.OnceValue(func() Rules {
	rules := Rules{}
	for _, data := range steps.Builtin() {
		if rule, findings := ParseRule(data); !finding.HasErrors(findings) { // a test holds them sound
			rules[rule.Type] = rule
		}
	}
	return rules
})

// Types lists the step types, sorted.
func (r Rules) Types() []string { return slices.Sorted(maps.Keys(r)) }

// ParseRule decodes the rule for one step type and checks its marks, ids and entry node. Its nodes are checked when a step
// is lowered.
func ParseRule(data []byte) (Rule, []finding.Finding) {
	var r Rule
	tree, findings := ruleFormat.Read(data, &r)
	if tree == nil {
		return r, findings
	}
	bad := func(pointer, format string, args ...any) {
		findings = append(findings, errorAt("rule_invalid", pointer, "", fmt.Sprintf(format, args...)))
	}
	if !ruleType().MatchString(r.Type) {
		bad("/type", "%q is not a valid step type: use capital letters, digits and _", r.Type)
	}
	var ok bool
	if r.nodes, ok = tree["nodes"].([]any); !ok || len(r.nodes) == 0 {
		bad("/nodes", "a rule has nodes")
	}
	if r.edges, ok = tree["edges"].([]any); !ok && tree["edges"] != nil {
		bad("/edges", "edges are an array")
	}
	ids := map[string]bool{}
	for i, n := range r.nodes {
		node, ok := n.(map[string]any)
		id, _ := node["id"].(string)
		if !ok || id == "" || ids[id] || len(id) > 31 {
			bad(fmt.Sprintf("/nodes/%d/id", i), "a node is an object with an id of its own, at most 31 characters long")
		}
		ids[id] = true
	}
	if !ids[r.EntryNode] {
		bad("/entry_node", "there is no node %q", r.EntryNode)
	}
	r.checkMarks(tree["nodes"], "/nodes", bad)
	r.checkMarks(tree["edges"], "/edges", bad)
	return r, findings
}

// checkMarks reports unknown marks.
func (r *Rule) checkMarks(v any, at string, bad func(pointer, format string, args ...any)) {
	checked := func(text, at string) {
		m := ruleRef().FindStringSubmatch(text)
		known := m == nil
		if m != nil {
			switch m[1] {
			case "arg":
				_, known = r.findInput(m[2])
			case "constraint":
				_, known = r.findConstraint(m[2])
			case "port":
				known = slices.ContainsFunc(r.Outputs, func(o RuleOutput) bool { return o.Name == m[2] })
			case "local":
				known = true
			}
		}
		if !known {
			bad(at, "%s is not declared", text)
		}
	}
	switch v := v.(type) {
	case string:
		checked(v, at)
	case []any:
		for i := range v {
			r.checkMarks(v[i], fmt.Sprintf("%s/%d", at, i), bad)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			checked(k, at)
			r.checkMarks(v[k], at+"/"+finding.EscapePointer(k), bad)
		}
	}
}

func (r *Rule) findInput(name string) (RuleInput, bool) { return findNamed(r.Inputs, name) }

func (r *Rule) findConstraint(name string) (RuleInput, bool) { return findNamed(r.Constraints, name) }

func findNamed(list []RuleInput, name string) (RuleInput, bool) {
	i := slices.IndexFunc(list, func(in RuleInput) bool { return in.Name == name })
	if i < 0 {
		return RuleInput{}, false
	}
	return list[i], true
}

func (r *Rule) inputNames() []string {
	var names []string
	for _, in := range r.Inputs {
		names = append(names, in.Name)
	}
	return names
}

func (r *Rule) outputNames() []string {
	var names []string
	for _, out := range r.Outputs {
		names = append(names, out.Name)
	}
	return names
}

// WithRules adds rules to the built-in ones; a rule replaces a built-in one of the same type. files maps the names of files,
// for findings, to their content.
func WithRules(files map[string][]byte) (Rules, error) {
	rules := BuiltinRules()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		rule, findings := ParseRule(files[name])
		var said []string
		for _, f := range findings {
			if f.Severity == finding.SeverityError {
				said = append(said, f.Pointer+": "+f.Message)
			}
		}
		if len(said) > 0 {
			return nil, fmt.Errorf("step rule %s: %s", name, strings.Join(said, "; "))
		}
		rules[rule.Type] = rule
	}
	return rules, nil
}
