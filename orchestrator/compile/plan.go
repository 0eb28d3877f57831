package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// PlanVersion is the version of plans that this compiler reads, and the newest.
const PlanVersion = "1.0"

var planFormat = ir.Format{Name: "PlanIR", Member: "planir_version", Version: PlanVersion}

// Plan is a PlanIR document: a goal and a sequence of abstract steps, written by a person or a model. The steps run in
// order. Each has a type, whose rule determines the nodes that it is lowered to.
type Plan struct {
	// The schema of this document, for editors.
	Schema string `json:"$schema,omitempty"`
	// The version of the format, MAJOR.MINOR.
	Version string `json:"planir_version"`
	// The name of the plan.
	ID string `json:"id,omitempty"`
	// The goal, in words.
	Goal string `json:"goal"`
	// Values for all steps that use them, such as "timezone". One that no step uses is reported.
	Constraints map[string]json.RawMessage `json:"constraints,omitempty"`
	// A JSON schema of the input.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// Bounds of a run.
	Limits *ir.Limits `json:"limits,omitempty"`
	// The steps, in their order.
	Steps []PlanStep `json:"steps"`
	// The result of a run, a value expression; without it, all of $vars.
	Output json.RawMessage `json:"output,omitempty"`
	// The author's own.
	Meta json.RawMessage `json:"meta,omitempty"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	// The name of the step.
	ID string `json:"id"`
	// The type of the step, such as "FIND_CONTACT".
	Type string `json:"type"`
	// The inputs of the step, as value expressions: "$in.x" is an input of the run, "$vars.x" a value of an earlier step.
	Inputs map[string]json.RawMessage `json:"inputs,omitempty"`
	// Where its outputs are kept: "$vars.x", or "$tmp.x". Without it, output o of step S is $vars.S.o.
	Outputs map[string]string `json:"outputs,omitempty"`
	// The author's own.
	Meta json.RawMessage `json:"meta,omitempty"`
}

var planStepID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`) })

// parsePlan lowers a plan by the rules for its steps.
func parsePlan(data []byte, s Sources) (*Flow, []finding.Finding) {
	var p Plan
	tree, reading := planFormat.Read(data, &p)
	if tree == nil {
		return nil, reading
	}
	l := planning{plan: &p, rules: s.Rules, in: "/inputs", origins: origins{}, consumed: map[string]bool{}, nodes: []any{}, edges: []any{}}
	doc := l.lowerPlan()
	if len(l.nodes) == 0 {
		return nil, ir.Merge(reading, l.findings)
	}
	if digest, err := canonicalJSON(data); err == nil {
		doc["source"].(map[string]any)["workflow_digest"] = digestOf(digest)
	}
	flow, findings := s.parseLowered(doc, l.mapFindings)
	if findings = ir.Merge(reading, append(l.findings, findings...)); flow == nil || finding.HasErrors(findings) {
		return nil, findings
	}
	flow.Plan, flow.origins = &p, l.origins
	return flow, findings
}

// planning turns one plan into ExecIR.
type planning struct {
	plan     *Plan
	rules    Rules
	in       string // where a step has its inputs
	origins  origins
	findings []finding.Finding
	consumed map[string]bool // constraints that a step knows of
	broken   bool            // a step could not be lowered, so that findings in the lowered program may be its echo
	nodes    []any
	edges    []any
}

func (l *planning) addError(code, pointer, hint, format string, args ...any) {
	l.findings = append(l.findings, errorAt(code, pointer, hint, fmt.Sprintf(format, args...)))
}

func (l *planning) lowerPlan() map[string]any {
	p := l.plan
	if strings.TrimSpace(p.Goal) == "" {
		l.addError("field_missing", "/goal", `"goal": "Tell the team about the release"`, "a plan needs a goal")
	}
	if len(p.Steps) == 0 {
		l.addError("field_missing", "/steps", "known: "+strings.Join(l.rules.Types(), ", "), "a plan has at least one step")
	}
	entry, _ := l.lowerSteps()
	doc := map[string]any{
		"execir_version": ir.Version, "source": map[string]any{"planir_version": p.Version, "compiler": compiler},
		"entry_node": entry, "nodes": l.nodes, "edges": l.edges,
	}
	set := func(name string, v any, there bool) {
		if there {
			doc[name] = v
		}
	}
	set("id", p.ID, p.ID != "")
	set("description", p.Goal, p.Goal != "")
	set("input_schema", p.InputSchema, p.InputSchema != nil)
	set("limits", p.Limits, p.Limits != nil)
	set("output", p.Output, p.Output != nil)
	set("meta", p.Meta, p.Meta != nil)
	uses := usesOf(l.nodes)
	set("tools", uses.tools, true)
	set("model_classes", uses.classes, len(uses.classes) > 0)
	set("templates", uses.templates, len(uses.templates) > 0)
	for _, name := range slices.Sorted(maps.Keys(p.Constraints)) {
		if !l.consumed[name] {
			l.findings = append(l.findings, finding.Finding{
				Code: "constraint_unused", Severity: finding.SeverityWarning, Pointer: "/constraints/" + finding.EscapePointer(name),
				Message: fmt.Sprintf("no step of the plan knows the constraint %q, so that it changes nothing", name),
				Hint:    cmp.Or(finding.Near(name, l.knownConstraints()), "remove it, or add a step that uses it"),
			})
		}
	}
	return doc
}

// lowerSteps lowers all steps and connects each with the next one.
func (l *planning) lowerSteps() (entry string, exits []string) {
	seen := map[string]int{}
	for i := range l.plan.Steps {
		s, at := &l.plan.Steps[i], "/steps/"+strconv.Itoa(i)
		first, twice := seen[s.ID]
		named := planStepID().MatchString(s.ID)
		switch {
		case !named:
			l.addError("id_invalid", at+"/id", "letters, digits, _ and -, a letter first, at most 32", "%q is not a valid id for a step", s.ID)
		case twice:
			l.addError("id_duplicate", at+"/id", "rename one of the two", "the step at /steps/%d has the id %q, too", first, s.ID)
		default:
			seen[s.ID] = i
		}
		rule, ok := l.rules[s.Type]
		switch {
		case !ok:
			l.addError("type_unknown", at+"/type", finding.OneOf(s.Type, l.rules.Types()), "there is no step type %q", s.Type)
		case !named || twice:
			l.checkStep(s, rule, at)
		}
		if !ok || !named || twice {
			l.broken = true
			continue
		}
		begin, ends := l.expandStep(s, rule, at)
		for _, from := range exits {
			l.edges = append(l.edges, map[string]any{"from": from, "to": begin})
		}
		entry = cmp.Or(entry, begin)
		exits = ends
	}
	return entry, exits
}

func (l *planning) knownConstraints() []string {
	var names []string
	for _, s := range l.plan.Steps {
		for _, c := range l.rules[s.Type].Constraints {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// mapFindings maps findings of the lowered program to the plan: to an input, output or constraint if they are about text of
// the author, else to the step.
func (l *planning) mapFindings(findings []finding.Finding) []finding.Finding {
	said := map[string]bool{}
	for _, f := range l.findings {
		said[f.Pointer] = true
	}
	var out []finding.Finding
	for _, f := range findings {
		at, step := l.sourceOf(f.Pointer)
		if said[at] {
			continue
		}
		if l.broken && (f.Code == "ref_unset" || f.Code == "field_missing" || f.Code == "node_unknown") {
			continue // it may refer to a step that could not be lowered
		}
		if step {
			f.Message = l.nodeOf(f.Pointer) + f.Message
		}
		f.Pointer = at
		out = append(out, f)
	}
	return out
}

// nodeOf returns the name of the lowered node that a pointer leads into, as a prefix for messages.
func (l *planning) nodeOf(pointer string) string {
	parts := strings.SplitN(pointer, "/", 4)
	if len(parts) < 3 || parts[1] != "nodes" {
		return ""
	}
	if i, err := strconv.Atoi(parts[2]); err == nil && i < len(l.nodes) {
		return fmt.Sprint(l.nodes[i].(map[string]any)["id"], ": ")
	}
	return ""
}

// sourceOf returns the origin of a pointer into the lowered program. step reports that it comes from the rule of a step, not
// from text of the author.
func (l *planning) sourceOf(pointer string) (at string, step bool) {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		to, ok := l.origins[p]
		switch {
		case !ok:
		case strings.Count(to, "/") == 2 && strings.HasPrefix(to, "/steps/"):
			return to, true
		default:
			return to + pointer[len(p):], false
		}
	}
	return pointer, false
}
