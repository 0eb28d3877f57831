package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/spritekit/lattice/manifests/schemas"
	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Static checks of the nodes that ask models.

// llmCheck checks the members of nodes that ask models.
type llmCheck struct{ *graph }

// checkLLM checks an LLM_… node: its model class, template, schemas, validators and policies.
func (g llmCheck) checkLLM(n *ir.Node, ptr string) {
	g.checkInputs(n, ptr)
	g.checkExprText(n.Labels, ptr+"/labels")
	g.checkExprText(n.Candidates, ptr+"/candidates")
	g.checkModelClass(n.ModelClass, ptr+"/model_class")
	g.checkOutputSchema(n, ptr)
	g.checkTemplate(n, ptr)
	g.checkValidators(n, ptr)
	g.checkPolicy(n, ptr)
	g.checkEscalation(n, ptr)
	if n.MaxOutputTokens < 0 || n.MaxOutputTokens > ir.MaxOutputTokens {
		g.AddError("limit_invalid", ptr+"/max_output_tokens", "leave it out for the default", "max_output_tokens is between 1 and %d", ir.MaxOutputTokens)
	}
	if n.Temperature < 0 || n.Temperature > 2 {
		g.AddError("limit_invalid", ptr+"/temperature", "0 repeats itself best", "temperature is between 0 and 2")
	}
	g.checkCache(n, ptr)
	switch n.Op {
	case ir.OpLLMClassify:
		g.checkLabels(n, ptr)
	case ir.OpLLMChoose:
		g.checkChoose(n, ptr)
	}
}

var classPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) })

func (g *graph) checkModelClass(class, ptr string) {
	switch {
	case class == "":
		g.AddError("field_missing", ptr, "such as SMALL_EXEC; the settings map it to a model", "a node that asks a model names its class")
	case !classPattern().MatchString(class):
		g.AddError("model_class_invalid", ptr, "capitals, digits and _, such as SMALL_EXEC", "%q is not a valid name for a model class", class)
	case g.doc.ModelClasses != nil && !slices.Contains(g.doc.ModelClasses, class):
		g.AddError("model_class_not_allowed", ptr, "add it to model_classes", "%s is not in the document's list of model classes", class)
	}
}

func (g *graph) checkOutputSchema(n *ir.Node, ptr string) {
	if n.OutputSchema == "" {
		g.AddError("field_missing", ptr+"/output_schema", "known: "+fmt.Sprint(g.schemaNames()), "a node that asks a model names the schema of its output")
		return
	}
	schema, ok := g.doc.FindOutputSchema(n.OutputSchema)
	if !ok {
		g.AddError("schema_unknown", ptr+"/output_schema", finding.Near(n.OutputSchema, g.schemaNames()), "there is no schema %q, neither in schemas nor built in", n.OutputSchema)
		return
	}
	var top struct{ Type any }
	if json.Unmarshal(schema, &top) != nil || top.Type != "object" {
		g.AddError("schema_no_object", ptr+"/output_schema", `put the value into a member: {"type":"object", …}`, "the output of a model is an object; %s describes something else", n.OutputSchema)
	}
}

func (v *validator) schemaNames() []string {
	names := append(slices.Sorted(maps.Keys(v.doc.Schemas)), schemas.Names()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkTemplate compares the node's inputs with the ports of its template.
func (g llmCheck) checkTemplate(n *ir.Node, ptr string) {
	at := ptr + "/prompt_template"
	if n.PromptTemplate == "" {
		g.AddError("field_missing", at, "known: "+fmt.Sprint(templates.IDs()), "a node that asks a model names its prompt template")
		return
	}
	t, ok := g.doc.FindTemplate(n.PromptTemplate)
	_, own := g.doc.PromptTemplates[n.PromptTemplate]
	switch {
	case !ok && own:
		return // reported where it stands
	case !ok:
		g.AddError("template_unknown", at, finding.Near(n.PromptTemplate, append(slices.Collect(maps.Keys(g.doc.PromptTemplates)), templates.IDs()...)), "there is no prompt template %q", n.PromptTemplate)
		return
	}
	if t.Op != string(n.Op) {
		g.AddError("template_op", at, "change the op, or name a template for it", "%s is a template for %s, not for %s", t.ID, t.Op, n.Op)
	}
	if t.OutputSchema != "" && n.OutputSchema != "" && t.OutputSchema != n.OutputSchema {
		g.AddError("template_schema", ptr+"/output_schema", "name "+t.OutputSchema, "%s asks for %s, not for %s", t.ID, t.OutputSchema, n.OutputSchema)
	}
	ports := slices.Sorted(maps.Keys(t.InputPorts))
	given := n.ImplicitPorts()
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		given = append(given, name)
		if !slices.Contains(ports, name) {
			g.AddError("port_unknown", ptr+"/inputs/"+finding.EscapePointer(name), finding.Near(name, ports), "the template %s has no input %q", t.ID, name)
		}
	}
	for _, name := range ports {
		if !slices.Contains(given, name) {
			g.AddError("port_missing", ptr+"/inputs/"+finding.EscapePointer(name), `"inputs": {"`+name+`": value}`, "the template %s needs an input %q", t.ID, name)
		}
	}
}

func (g llmCheck) checkValidators(n *ir.Node, ptr string) {
	if n.Validators == nil {
		g.AddError("field_missing", ptr+"/validators", `[{"type":"json_schema","schema":"`+n.OutputSchema+`"}]`, "a node that asks a model lists its validators")
	}
	for i, v := range n.Validators {
		at := ptr + "/validators/" + strconv.Itoa(i)
		switch v.Type {
		case "json_schema":
			if _, ok := g.doc.FindOutputSchema(v.Schema); !ok {
				g.AddError("schema_unknown", at+"/schema", finding.Near(v.Schema, g.schemaNames()), "there is no schema %q", v.Schema)
			}
		case "invariant":
			g.checkInvariant(v, at)
		case "choice_in_candidates":
			if n.Op != ir.OpLLMChoose {
				g.AddError("validator_misplaced", at+"/type", "remove it; only LLM_CHOOSE has candidates", "%s has no candidates", n.Op)
			}
		case "label_in_set":
			if n.Op != ir.OpLLMClassify {
				g.AddError("validator_misplaced", at+"/type", "remove it; only LLM_CLASSIFY has labels", "%s has no labels", n.Op)
			}
		case "no_extra_text":
		case "max_chars":
			if v.Max < 1 {
				g.AddError("limit_invalid", at+"/max", `"max": 1`, "max is at least 1")
			}
		default:
			g.AddError("validator_unknown", at+"/type", finding.OneOf(v.Type, validatorTypes), "there is no validator %q", v.Type)
		}
	}
}

var validatorTypes = []string{"json_schema", "invariant", "choice_in_candidates", "label_in_set", "no_extra_text", "max_chars"}

func (g llmCheck) checkInvariant(v ir.Validator, ptr string) {
	if (v.Expr == "") == (v.AST == nil) {
		g.AddError("invariant_form", ptr, `for example "expr": "$out.id in $in.candidates[*].id"`, "an invariant has either expr or ast")
		return
	}
	if v.Expr == "" {
		return // its references were checked when it was decoded
	}
	c, err := expr.ParseCond(v.Expr)
	if err != nil {
		g.AddError("invariant_invalid", ptr+"/expr", `such as "$out.id in $in.candidates[*].id"`, "%v", err)
		return
	}
	expr.CondRefs(c.Root, ptr+"/expr", nil, func(r expr.Ref, _ string, _ []expr.Ref) {
		if !expr.ClosedRoots[r.Root] {
			g.AddError("ref_scope", ptr+"/expr", "pass it to the node as an input, which is a member of $in here", "a validator sees $out and $in, the node's inputs, and not %s", r.Root)
		}
	})
}

var strategies = []string{"PATCH_JSON_FROM_ERROR", "REGENERATE", "NONE"}

func (g llmCheck) checkPolicy(n *ir.Node, ptr string) {
	p := n.RetryPolicy
	if p == nil {
		g.AddError("field_missing", ptr+"/retry_policy", `{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2}`, "a node that asks a model needs a retry policy")
		return
	}
	if !slices.Contains(strategies, p.Strategy) {
		g.AddError("strategy_unknown", ptr+"/retry_policy/strategy", finding.OneOf(p.Strategy, strategies), "there is no strategy %q", p.Strategy)
	}
	if p.MaxAttempts < 0 || p.MaxAttempts > ir.MaxAttempts {
		g.AddError("limit_invalid", ptr+"/retry_policy/max_attempts", "it counts all questions to the class, the first included", "max_attempts is between 1 and %d", ir.MaxAttempts)
	}
}

// checkEscalation has a node climb: each class once, and upward in the document's list of classes.
func (g llmCheck) checkEscalation(n *ir.Node, ptr string) {
	below := []string{n.ModelClass}
	for i, e := range n.Escalation {
		at := fmt.Sprintf("%s/escalation/%d", ptr, i)
		g.checkKinds(e.On, at, i == len(n.Escalation)-1)
		g.checkModelClass(e.ToClass, at+"/to_model_class")
		list := g.doc.ModelClasses
		from, to := slices.Index(list, below[len(below)-1]), slices.Index(list, e.ToClass)
		switch {
		case slices.Contains(below, e.ToClass) && e.ToClass != "":
			g.AddError("escalation_twice", at+"/to_model_class", "each class is asked in one stretch only", "%s was asked before", e.ToClass)
		case from >= 0 && to >= 0 && to < from:
			g.AddError("escalation_down", at+"/to_model_class", "model_classes lists them from the weakest to the strongest", "%s comes before %s in model_classes: a node can only escalate to a stronger class", e.ToClass, list[from])
		}
		if e.MaxAttempts < 0 || e.MaxAttempts > ir.MaxAttempts {
			g.AddError("limit_invalid", at+"/max_attempts", `"max_attempts": 3`, "max_attempts is between 1 and %d", ir.MaxAttempts)
		}
		if e.Carry != "" && e.Carry != "packet" && e.Carry != "fresh" {
			g.AddError("carry_invalid", at+"/carry", "known: packet, fresh", "an escalation cannot carry %q", e.Carry)
		}
		below = append(below, e.ToClass)
	}
}

func (g llmCheck) checkLabels(n *ir.Node, ptr string) {
	if n.Labels == nil {
		g.AddError("field_missing", ptr+"/labels", `["spam", "ham"]`, "LLM_CLASSIFY lists its labels")
		return
	}
	expression, err := expr.Decode(n.Labels)
	list, ok := expression.([]any)
	if err != nil || !ok {
		return // a reference, or reported
	}
	if len(list) == 0 {
		g.AddError("labels_empty", ptr+"/labels", `"labels": ["yes", "no"]`, "LLM_CLASSIFY has at least one label")
	}
	for i, label := range list {
		text, isText := label.(string)
		if !isText || text == "" || slices.Contains(list[:i], label) {
			g.AddError("label_invalid", ptr+"/labels/"+strconv.Itoa(i), "remove the label that is empty or repeated", "labels are distinct texts that are not empty")
		}
	}
}

func (g llmCheck) checkChoose(n *ir.Node, ptr string) {
	if n.Candidates == nil && n.Inputs["candidates"] == nil {
		g.AddError("field_missing", ptr+"/inputs/candidates", `"inputs": {"candidates": "$vars.list"}`, "LLM_CHOOSE has an input called candidates")
	}
	if n.OnEmpty != "" && n.OnEmpty != "error" && n.OnEmpty != "null" {
		g.AddError("on_empty_invalid", ptr+"/on_empty", "known: error, null", "on_empty cannot be %q", n.OnEmpty)
	}
	if n.OnSingle != "" && n.OnSingle != "auto" && n.OnSingle != "ask" {
		g.AddError("on_single_invalid", ptr+"/on_single", "known: auto, ask", "on_single cannot be %q", n.OnSingle)
	}
	others := maps.Clone(n.Inputs)
	delete(others, "candidates")
	if len(others) == 0 {
		g.AddWarning("choose_blind", ptr+"/inputs", "add an input to choose by, such as the search query", "the model sees the candidates but nothing to choose them by")
	}
}

// checkTemplates checks the document's own templates, and its pins.
func (v *validator) checkTemplates() {
	for _, id := range slices.Sorted(maps.Keys(v.doc.Templates)) {
		at, known := "/templates/"+finding.EscapePointer(id), append(slices.Collect(maps.Keys(v.doc.PromptTemplates)), templates.IDs()...)
		t, ok := v.doc.FindTemplate(id)
		switch {
		case !slices.Contains(known, id):
			v.AddError("template_unknown", at, finding.Near(id, known), "there is no prompt template %q", id)
		case ok && v.doc.Templates[id] != t.SHA256:
			v.AddError("template_changed", at, "look at what changed, then pin "+t.SHA256, "%s has changed since the document was made", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.doc.PromptTemplates)) {
		ptr := "/prompt_templates/" + finding.EscapePointer(id)
		t, err := templates.Parse(v.doc.PromptTemplates[id])
		_, builtin := templates.Builtin(id)
		switch {
		case err != nil:
			v.AddError("template_invalid", ptr, "docs/execir.md describes the members of a template", "%v", err)
		case t.ID != id:
			v.AddError("template_invalid", ptr+"/id", "use the same id for both", "the template %q is listed as %q", t.ID, id)
		case builtin:
			v.AddError("template_shadows", ptr, "give it another id", "%s is a built-in template and cannot be redefined", id)
		}
	}
}
