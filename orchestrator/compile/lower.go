package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// compiler is the value of source.compiler in lowered documents. It changes when the output of lowering changes.
const compiler = "lattice/1"

func parseWorkflow(data []byte, s Sources) (*Flow, []finding.Finding) {
	var w Workflow
	tree, reading := workflowFormat.Read(data, &w)
	if tree == nil {
		return nil, reading
	}
	l := lowering{workflow: &w, tools: s.Tools, origins: origins{}, typed: map[string]typedStep{}, within: map[string]bool{}}
	l.plan = planning{plan: &Plan{}, rules: s.Rules, in: "/in", origins: l.origins, consumed: map[string]bool{}, nodes: []any{}, edges: []any{}}
	head := l.lowerDocument()
	if digest, err := canonicalJSON(data); err == nil {
		head.Source.WorkflowDigest = digestOf(digest)
	}
	l.checkPorts()
	doc, err := l.lowerTyped(head)
	if err != nil {
		return nil, ir.Merge(reading, append(l.findings, encodingError(err)))
	}
	flow, findings := s.parseLowered(doc, l.mapFindings)
	if findings = ir.Merge(reading, append(l.findings, findings...)); flow == nil || finding.HasErrors(findings) {
		return nil, findings
	}
	flow.Workflow, flow.origins = &w, l.origins
	return flow, findings
}

func encodingError(err error) finding.Finding {
	return errorAt("json_invalid", "", `look for unpaired surrogates such as "\ud800"`, fmt.Sprintf("write the document in RFC 8785 form: %v", err))
}

func canonicalJSON(text []byte) ([]byte, error) { return jcs.Transform(text) }

// lowering turns one workflow graph into ExecIR, node for node.
type lowering struct {
	workflow *Workflow
	tools    Tools
	origins  origins
	findings []finding.Finding
	entries  int // steps that nothing leads to; 1 when the document names its entry

	plan   planning             // lowers steps whose types are rules, and holds all nodes and edges
	typed  map[string]typedStep // those steps, by id
	within map[string]bool      // pointers of the nodes that rules made
}

func (l *lowering) addError(code, pointer, hint, format string, args ...any) {
	l.findings = append(l.findings, errorAt(code, pointer, hint, fmt.Sprintf(format, args...)))
}

func (l *lowering) lowerDocument() ir.Document {
	w := l.workflow
	doc := ir.Document{
		Version: ir.Version, ID: w.ID, Revision: w.Revision, Description: w.Description,
		Source:      &ir.Source{WorkflowVersion: w.Version, Compiler: compiler},
		InputSchema: w.InputSchema, Output: w.Output, CtxRequires: w.CtxRequires, Limits: w.Limits, Meta: w.Meta,
		EntryNode: l.entryStep(), Nodes: []ir.Node{}, Edges: []ir.Edge{},
	}
	return doc
}

// lowerStep lowers a step that calls a skill to one node. at is the pointer of the step, to that of the node.
func (l *lowering) lowerStep(s *Step, at, to string) ir.Node {
	l.checkType(s, at)
	n := ir.Node{
		ID: s.ID, Op: ir.OpToolCall, Tool: s.Skill(), Args: s.In, Outputs: s.Outputs, SideEffect: s.SideEffect,
		TimeoutS: s.TimeoutS, Retry: s.Retry, Catch: s.Catch, Meta: s.Meta,
	}
	if slices.Contains(abstractTypes, s.Type) {
		n.Args = nil // its inputs have forms of their own
	}
	l.origins[to+"/args"] = at + "/in"
	l.origins[to+"/op"] = at + "/type"
	if s.Type != typeTool {
		l.origins[to+"/tool"] = at + "/type"
	}
	if n.Outputs == nil && ir.IDPattern().MatchString(s.ID) {
		n.Outputs = map[string]string{"result": "$vars" + refSegment(s.ID)}
		l.origins[to+"/outputs/result"] = at + "/id"
	}
	return n
}

// refSegment returns a step's id as a segment of a reference.
func refSegment(id string) string {
	if strings.Contains(id, ".") {
		return "['" + id + "']"
	}
	return "." + id
}

// checkType checks that a step has one type. The check of the lowered program finds unknown skills.
func (l *lowering) checkType(s *Step, at string) {
	switch {
	case s.Type == "":
		l.addError("field_missing", at+"/type", `the name of a skill, such as "git.clone"`, "a step has a type")
	case s.Type == typeTool && s.Tool == "":
		l.addError("field_missing", at+"/tool", `"tool": "fs.read"`, `a step of type "tool" names a skill`)
	case s.Type != typeTool && s.Tool != "":
		l.addError("field_not_allowed", at+"/tool", `remove it, or write "type": "tool"`, "the step's type names a skill already")
	case slices.Contains(abstractTypes, s.Type):
		l.addError("type_unsupported", at+"/type", "name a skill, or a step type with its inputs: "+strings.Join(l.plan.rules.Types(), ", "), "%q does not say what the step does", s.Type)
	case s.Type != typeTool && !strings.Contains(s.Type, ".") && !l.isSkill(s.Type):
		l.addError("type_unknown", at+"/type", finding.Near(s.Type, slices.Concat(skillNames(), []string{typeTool}, l.plan.rules.Types())), "there is no step type %q", s.Type)
	}
}

// isSkill reports whether a word without a dot is the name of a skill: a drop-in one may have such a name.
func (l *lowering) isSkill(name string) bool {
	if l.tools == nil || !manifests.ValidName(name) {
		return false
	}
	_, ok := l.tools(name)
	return ok
}

func skillNames() []string {
	var names []string
	for _, s := range manifests.Skills() {
		names = append(names, s.Name)
	}
	return names
}

// entryStep returns the named entry step, else the only one without incoming edges. Edges that can close a cycle do not count.
func (l *lowering) entryStep() string {
	w := l.workflow
	if l.entries = 1; w.EntryNode != "" || len(w.Nodes) == 0 {
		return w.EntryNode
	}
	led := map[string]bool{}
	for _, e := range w.Edges {
		led[e.To] = led[e.To] || e.MaxTraversals == 0
	}
	var first []string
	for i := range w.Nodes {
		for _, c := range w.Nodes[i].Catch {
			led[c.To] = true
		}
	}
	for i := range w.Nodes {
		if id := w.Nodes[i].ID; !led[id] && id != "" {
			first = append(first, id)
		}
	}
	switch l.entries = len(first); l.entries {
	case 0:
		l.addError("entry_missing", "/entry_node", `"entry_node": "`+w.Nodes[0].ID+`"`, "every step is the target of an edge: name the first one")
		return w.Nodes[0].ID
	case 1:
	default:
		l.addError("entry_ambiguous", "/entry_node", "connect them by edges, or name entry_node", "no edge leads to %s: name the first one", strings.Join(first, ", "))
	}
	return first[0]
}

// mapFindings maps findings of the lowered program to the workflow and drops those that repeat an earlier finding. A finding
// inside the nodes of a rule is mapped to the step, unless it is about text of the author.
func (l *lowering) mapFindings(findings []finding.Finding) []finding.Finding {
	said := map[string]bool{}
	for _, f := range l.findings {
		said[f.Pointer] = true
	}
	out := make([]finding.Finding, 0, len(findings))
	for _, f := range findings {
		if at, inside := l.ruleOrigin(f.Pointer); inside {
			f.Message, f.Pointer = l.plan.nodeOf(f.Pointer)+f.Message, at
		} else {
			f.Pointer = l.origins.sourceOf(f.Pointer)
		}
		echo := l.plan.broken && slices.Contains([]string{"ref_unset", "field_missing", "node_unknown"}, f.Code)
		if !said[f.Pointer] && !strings.HasPrefix(f.Pointer, "/tools/") && !(f.Code == "node_unreachable" && l.entries != 1) && !echo {
			out = append(out, f)
		}
	}
	return out
}

// checkPorts checks that inputs which are outputs of other steps are of a type that fits.
func (l *lowering) checkPorts() {
	types := l.outputTypes()
	for i := range l.workflow.Nodes {
		s := &l.workflow.Nodes[i]
		skill, ok := l.tools(s.Skill())
		var in map[string]json.RawMessage
		if !ok || json.Unmarshal(s.In, &in) != nil {
			continue
		}
		for _, f := range skill.Inputs {
			var ref string
			if json.Unmarshal(in[f.Name], &ref) != nil {
				continue
			}
			if from, known := types[ref]; known && !isAssignable(from, f.Type) {
				hint := ""
				if f.Type == "string" {
					hint = `{"json":"` + ref + `"} makes text of it`
				}
				l.addError("port_type", "/nodes/"+strconv.Itoa(i)+"/in/"+finding.EscapePointer(f.Name), hint, "%s takes %s as %s; %s is %s", skill.Name, f.Name, f.Type, ref, from)
			}
		}
	}
}

// outputTypes gives the types of references to outputs, as far as the steps that write them agree.
func (l *lowering) outputTypes() map[string]string {
	types := map[string]string{}
	set := func(ref, t string) {
		if former, ok := types[ref]; ok && former != t {
			t = "" // any
		}
		types[ref] = t
	}
	for i := range l.workflow.Nodes {
		s := &l.workflow.Nodes[i]
		targets := s.Outputs
		if targets == nil {
			targets = map[string]string{"result": "$vars" + refSegment(s.ID)}
		}
		skill, _ := l.tools(s.Skill())
		for port, to := range targets {
			for _, f := range skill.Outputs {
				switch port {
				case "result":
					set(to+"."+f.Name, f.Type)
				case f.Name:
					set(to, f.Type)
				}
			}
		}
	}
	return types
}

// isAssignable reports whether a value of type from may be given where type to is wanted. "" is any type, and "array" an array
// of anything.
func isAssignable(from, to string) bool {
	if from == to || from == "" || to == "" || from == "integer" && to == "number" {
		return true
	}
	a, isArray := strings.CutPrefix(from, "array")
	b, wantsArray := strings.CutPrefix(to, "array")
	if !isArray || !wantsArray {
		return false
	}
	return a == "" || b == "" || isAssignable(a[1:len(a)-1], b[1:len(b)-1])
}
