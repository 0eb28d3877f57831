package compile

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Steps of workflow graphs whose type is a rule (EXTRACT_INTENT, FIND_CONTACT …) become the nodes of that rule, as steps of
// plans do: edges lead to the first of them and from the last ones. Their inputs are in "in"; output o of step S is
// $vars.S.o, unless outputs names another target.

// typedStep is such a step, lowered.
type typedStep struct {
	entry string
	exits []string
}

// lowerTyped returns the lowered document, decoded: head with the nodes and edges of all steps.
func (l *lowering) lowerTyped(head ir.Document) (map[string]any, error) {
	seen := map[string]bool{}
	for i := range l.workflow.Nodes {
		s, at, to := &l.workflow.Nodes[i], "/nodes/"+strconv.Itoa(i), "/nodes/"+strconv.Itoa(len(l.plan.nodes))
		rule, typed := l.plan.rules[s.Type]
		typed = typed && s.Tool == ""
		_, ruled := l.typed[s.ID]
		if ruled || typed && s.ID != "" && seen[s.ID] { // two that call skills are found as two nodes
			l.addError("id_duplicate", at+"/id", "rename one of the two", "there is another step %q", s.ID)
			l.plan.broken = true
			continue
		}
		if seen[s.ID] = true; typed {
			l.expandTyped(s, rule, at)
			continue
		}
		l.origins[to] = at
		node, err := toTree(l.lowerStep(s, at, to))
		if err != nil {
			return nil, err
		}
		l.plan.nodes = append(l.plan.nodes, node)
	}
	l.findings = append(l.findings, l.plan.findings...)
	for i, e := range l.workflow.Edges {
		if err := l.connectSteps(e, "/edges/"+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	l.redirectCatches(l.plan.nodes)
	uses := usesOf(l.plan.nodes)
	head.Tools, head.ModelClasses, head.Templates = uses.tools, uses.classes, uses.templates
	head.EntryNode = l.entryOf(head.EntryNode)
	doc, err := toTree(head)
	if err != nil {
		return nil, err
	}
	doc["nodes"], doc["edges"] = l.plan.nodes, l.plan.edges
	return doc, nil
}

// toTree converts v to the tree that ir.Decode returns for its JSON.
func toTree(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out, err := expr.Decode(text)
	object, _ := out.(map[string]any)
	return object, err
}

// expandTyped adds the nodes of one step whose type is a rule.
func (l *lowering) expandTyped(s *Step, rule Rule, at string) {
	if !planStepID().MatchString(s.ID) {
		l.addError("id_invalid", at+"/id", "letters, digits, _ and -, a letter first, at most 32", "%q is not a valid id for a step of type %s", s.ID, s.Type)
		l.plan.broken = true
		return
	}
	step := &PlanStep{ID: s.ID, Type: s.Type, Outputs: s.Outputs}
	if s.In != nil && json.Unmarshal(s.In, &step.Inputs) != nil {
		l.addError("arg_type", at+"/in", `{"name": value, …}`, "in is an object of named inputs")
		l.plan.broken = true
		return
	}
	for name, there := range map[string]bool{"side_effect": s.SideEffect != "", "timeout_s": s.TimeoutS != 0, "retry": s.Retry != nil} {
		if there {
			l.addError("field_not_allowed", at+"/"+name, "the rule for "+s.Type+" says it for its calls", "a step of type %s has no %q", s.Type, name)
		}
	}
	from, edge := len(l.plan.nodes), len(l.plan.edges)
	entry, exits := l.plan.expandStep(step, rule, at)
	l.typed[s.ID] = typedStep{entry, exits}
	for i := from; i < len(l.plan.nodes); i++ {
		l.within["/nodes/"+strconv.Itoa(i)] = true
		node := l.plan.nodes[i].(map[string]any)
		for j, c := range s.Catch {
			if rule, err := toTree(c); err == nil && node["op"] != string(ir.OpSwitch) {
				caught := asList(node["catch"])
				l.origins["/nodes/"+strconv.Itoa(i)+"/catch/"+strconv.Itoa(len(caught))] = at + "/catch/" + strconv.Itoa(j)
				rule["to"] = l.entryOf(c.To)
				node["catch"] = append(slices.Clip(caught), rule)
			}
		}
	}
	for i := edge; i < len(l.plan.edges); i++ {
		l.within["/edges/"+strconv.Itoa(i)] = true
	}
}

// entryOf returns the id of the entry node of a step.
func (l *lowering) entryOf(step string) string {
	if t, ok := l.typed[step]; ok {
		return t.entry
	}
	return step
}

// connectSteps adds an edge between two steps: from each exit node of the first to the entry node of the second.
func (l *lowering) connectSteps(e ir.Edge, at string) error {
	from := []string{e.From}
	if t, ok := l.typed[e.From]; ok {
		from = t.exits
	}
	for _, id := range from {
		e := e
		e.From, e.To = id, l.entryOf(e.To)
		edge, err := toTree(e)
		if err != nil {
			return err
		}
		l.origins["/edges/"+strconv.Itoa(len(l.plan.edges))] = at
		l.plan.edges = append(l.plan.edges, edge)
	}
	return nil
}

// redirectCatches changes catches that lead to a step whose type is a rule to its entry node.
func (l *lowering) redirectCatches(nodes []any) {
	for _, n := range nodes {
		node, _ := n.(map[string]any)
		for _, c := range asList(node["catch"]) {
			if rule, ok := c.(map[string]any); ok {
				if to, ok := rule["to"].(string); ok {
					rule["to"] = l.entryOf(to)
				}
			}
		}
	}
}

// ruleOrigin returns the pointer of the step whose rule created a value; ok is false if the author wrote the value.
func (l *lowering) ruleOrigin(pointer string) (at string, ok bool) {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if to, known := l.origins[p]; known {
			return to, l.within[p]
		}
	}
	return "", false
}
