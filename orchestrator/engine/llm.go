package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// cacheKey returns the key of the answer to a prompt: the digest of all that decides which answer is valid.
func (t llmOp) cacheKey(node *ir.Node, at ladder.Rung, q inquiry) string {
	if node.Cache != ir.CacheRun {
		return ""
	}
	r, f := t.buildRequest(node, at, q)
	held := []any{node.Op, node.AllowUnknown, node.Validators, node.RetryPolicy, node.Escalation, q.ids, q.labels}
	for _, v := range node.Validators { // documents may have other schemas by one name
		schema, _ := t.Run.Program.OutputSchema(node, v.Schema)
		held = append(held, schema)
	}
	rules, err := expr.Marshal(held)
	if f != nil || err != nil {
		return "" // the request itself reports why
	}
	r.BudgetUSD, r.Trimmed = nil, nil
	return lattice.DerivedKey("model", r.Digest(), string(rules))
}

// finishFromCache completes the current node with a cached answer. It reports whether there is one.
func (t llmOp) finishFromCache(node *ir.Node) bool {
	hit, ok := t.CachedAnswer(node)
	if !ok {
		return false
	}
	q, f := t.buildPrompt(node)
	if f != nil {
		t.FailVisit(f)
		return true
	}
	t.Visit.Asking = nil
	t.CompleteNode(hit.Value, map[string]any{
		"attempts": machine.Number(0), "escalated": false, "repaired": false, "cached": true, "class": hit.Class, "item": q.chosen(hit.Value),
	})
	return true
}

// inquiry is the content of the prompts of one visit of a node. It is computed again whenever it is needed: nothing that it
// reads changes during the visit.
type inquiry struct {
	in          map[string]any // as it is shown
	whole       []any          // LLM_CHOOSE: the candidates before they were shortened
	ids, labels []any
	trims       []expr.Trim
	checks      ladder.Checks
}

// llmOp is an LLM_… node: prompts to models, from class to class, until an answer is valid.
type llmOp struct{ *machine.Thread }

func (t llmOp) Answered(_ *ir.Node, c lattice.Command, f lattice.Fact) error {
	if f, ok := f.(lattice.ModelAnswered); ok {
		return t.modelAnswered(c, f)
	}
	return unexpectedFact(c, f)
}

// Begin begins a visit of an LLM_… node.
func (t llmOp) Begin(node *ir.Node) {
	q, f := t.buildPrompt(node)
	if f != nil {
		t.FailVisit(f)
		return
	}
	if node.Op == ir.OpLLMChoose && t.chooseWithoutModel(node, q) {
		return
	}
	first := ladder.First(node)
	if t.Visit.Key = t.cacheKey(node, first, q); t.finishFromCache(node) {
		return
	}
	t.Visit.Asking = &runstate.Asking{Rung: first}
	t.Dispatch()
}

// chooseWithoutModel makes a choice that needs no model, if it is one.
func (t llmOp) chooseWithoutModel(node *ir.Node, q inquiry) bool {
	switch {
	case len(q.ids) == 0 && node.OnEmpty == "null":
		t.completeAnswer(node, nil, nil)
	case len(q.ids) == 0:
		t.FailVisit(machine.Failf(expr.FailInvariant, "%s has nothing to choose from", node.ID))
	case len(q.ids) == 1 && node.OnSingle != "ask":
		t.completeAnswer(node, map[string]any{"id": q.ids[0]}, q.whole[0])
	default:
		return false
	}
	return true
}

// buildPrompt evaluates the inputs of a node and collects the checks of its answers.
func (t llmOp) buildPrompt(node *ir.Node) (inquiry, *expr.Failure) {
	in, f := t.EvalInputs(node)
	if f != nil {
		return inquiry{}, f
	}
	q := inquiry{in: in}
	for _, port := range slices.Sorted(maps.Keys(node.Inputs)) {
		if whole, f := expr.Eval(expr.Whole(node.Inputs[port]), t.Scope(nil)); f == nil {
			q.trims = append(q.trims, expr.Trims("/"+port, whole, in[port])...)
		}
	}
	switch node.Op {
	case ir.OpLLMClassify:
		f = t.addLabels(node, &q)
	case ir.OpLLMChoose:
		f = t.addCandidates(node, &q)
	}
	if f != nil {
		return q, f
	}
	var err error
	if q.checks, err = ladder.NewChecks(node, func(name string) (json.RawMessage, bool) { return t.Run.Program.OutputSchema(node, name) }, q.in, q.ids, q.labels); err != nil {
		return q, machine.Failf(expr.FailSchema, "%v", err)
	}
	return q, nil
}

func (t llmOp) addLabels(node *ir.Node, q *inquiry) *expr.Failure {
	v, f := expr.Eval(node.Labels, t.Scope(nil))
	if f != nil {
		f.Message = "labels: " + f.Message
		return f
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return machine.Failf(expr.FailStateType, "the labels of %s must be a non-empty array", node.ID)
	}
	for _, label := range list {
		if text, ok := label.(string); !ok || text == "" {
			return machine.Failf(expr.FailStateType, "a label of %s is not a non-empty string", node.ID)
		}
	}
	q.labels = list
	if _, given := q.in["labels"]; !given {
		q.in["labels"] = list
	}
	return nil
}

// addCandidates evaluates the candidates of a choice. The model may see fewer or shortened ones; the choice is always the
// complete candidate.
func (t llmOp) addCandidates(node *ir.Node, q *inquiry) *expr.Failure {
	expression := node.Candidates
	if expression == nil {
		expression = expr.Whole(node.Inputs["candidates"])
	}
	v, f := expr.Eval(expression, t.Scope(nil))
	if f != nil {
		f.Message = "candidates: " + f.Message
		return f
	}
	if _, given := q.in["candidates"]; !given {
		q.in["candidates"] = v
	}
	all, ok := v.([]any)
	shown, listed := q.in["candidates"].([]any)
	if !ok || !listed {
		return machine.Failf(expr.FailStateType, "the candidates of %s are not an array", node.ID)
	}
	member := cmp.Or(node.IDField, "id")
	seen := map[string]bool{}
	for i, c := range shown {
		id, key, ok := candidateID(c, member)
		if !ok || seen[key] {
			return machine.Failf(expr.FailStateType, "candidate %d of %s has no %s of its own", i, node.ID, member)
		}
		seen[key] = true
		whole := slices.IndexFunc(all, func(w any) bool { _, k, ok := candidateID(w, member); return ok && k == key })
		if whole < 0 {
			return machine.Failf(expr.FailStateType, "candidate %s of %s is not among the whole candidates", key, node.ID)
		}
		q.ids, q.whole = append(q.ids, id), append(q.whole, all[whole])
	}
	return nil
}

// candidateID returns the id of a candidate, and its JSON, by which ids are compared.
func candidateID(candidate any, member string) (id any, key string, ok bool) {
	object, _ := candidate.(map[string]any)
	switch id = object[member]; id.(type) {
	case nil, []any, map[string]any, bool:
		return nil, "", false
	}
	text, err := expr.Marshal(id)
	return id, string(text), err == nil
}

// Dispatch asks on the current rung, when there is room and the limits allow it.
func (t llmOp) Dispatch() {
	m := t.Run
	if t.HoldBack() {
		return
	}
	node, at := m.Program.Node(t.Node), t.Visit.Asking
	if at.Try == 1 && t.finishFromCache(node) { // another thread has got the answer in the meantime
		return
	}
	q, f := t.buildPrompt(node)
	if f != nil {
		t.FailVisit(f)
		return
	}
	request, f := t.buildRequest(node, at.Rung, q)
	if f != nil {
		t.FailVisit(f)
		return
	}
	if f := t.checkBudget(request); f != nil {
		t.FailVisit(f)
		return
	}
	m.CountUsage(node.ID, 1, lattice.ModelUsage{})
	t.Visit.Attempt = at.Try
	t.Issue(lattice.Command{Kind: lattice.DoModel, Model: &request})
}

// buildRequest renders the prompt of an attempt.
func (t llmOp) buildRequest(node *ir.Node, at ladder.Rung, q inquiry) (lattice.ModelRequest, *expr.Failure) {
	template, ok := t.Run.Program.Template(node)
	if !ok {
		return lattice.ModelRequest{}, machine.Failf(expr.FailRef, "the prompt template %s differs from the one that the run was started with, or is gone", node.PromptTemplate)
	}
	system, user, f := ladder.Prompt(template, q.checks.Schema, q.in, at.Packet)
	if f != nil {
		return lattice.ModelRequest{}, f
	}
	r := lattice.ModelRequest{
		Class: at.Class, Try: at.Try, Template: template.ID, System: system, User: user, SchemaName: node.OutputSchema, Schema: q.checks.Schema,
		MaxOutputTokens: node.MaxOutputTokens, Temperature: node.Temperature, Seed: node.Seed, TimeoutS: node.TimeoutS,
	}
	if len(q.trims) > 0 {
		text, err := expr.Marshal(q.trims)
		if err != nil {
			return r, machine.Failf(expr.FailStateType, "encode the list of shortened inputs: %v", err)
		}
		r.Trimmed = text
	}
	r.MaxOutputTokens = cmp.Or(r.MaxOutputTokens, ir.DefaultOutputTokens)
	if l := t.Run.Program.Doc.Limits; l != nil && l.MaxCostUSD > 0 {
		left := max(0, l.MaxCostUSD-t.Run.State.Models.CostUSD)
		r.BudgetUSD = &left
	}
	return r, nil
}

// checkBudget compares a request with the limits on calls and tokens before it is sent. A prompt is estimated at one token for
// four bytes; requests that are pending may use all tokens that they are allowed. The driver checks the cost, because it
// knows the prices.
func (t llmOp) checkBudget(r lattice.ModelRequest) *expr.Failure {
	l := t.Run.Program.Doc.Limits
	if l == nil {
		return nil
	}
	if l.MaxLLMCalls > 0 && t.Run.State.Models.Calls >= l.MaxLLMCalls {
		return machine.Failf(expr.FailLimit, "the run has asked models %d times; max_llm_calls is %d", t.Run.State.Models.Calls, l.MaxLLMCalls)
	}
	if l.MaxTokens == 0 {
		return nil
	}
	wanted := t.Run.State.Models.Tokens() + estimateTokens(r)
	for _, c := range t.Run.State.Pending {
		if c.Model != nil {
			wanted += estimateTokens(*c.Model)
		}
	}
	if wanted > l.MaxTokens {
		return machine.Failf(expr.FailLimit, "with another question the run may have used %d tokens; max_tokens is %d", wanted, l.MaxTokens)
	}
	return nil
}

func estimateTokens(r lattice.ModelRequest) int {
	return (len(r.System)+len(r.User))/4 + r.MaxOutputTokens
}

func (t llmOp) modelAnswered(c lattice.Command, f lattice.ModelAnswered) error {
	if c.Model != nil && c.Model.Digest() != f.Request {
		return fmt.Errorf("the answer to %s belongs to another request: %s was sent, %s is recorded", f.CommandID, c.Model.Digest(), f.Request)
	}
	if t.Visit == nil || t.Visit.Asking == nil {
		return errors.New("an answer for a node that has not asked a model")
	}
	t.Run.CountUsage(c.Node, 0, f.Usage)
	node, at := t.Run.Program.Node(c.Node), t.Visit.Asking
	q, bad := t.buildPrompt(node)
	if bad != nil {
		t.FailVisit(bad)
		return nil
	}
	verdict := ladder.Verdict{Kind: f.Kind, Message: f.Message, Text: f.Text}
	packet := ladder.Failed(node, q.checks, at.Rung, f.Kind, f.Message, f.Text)
	if f.Kind == "" {
		verdict = q.checks.Judge(f.Text)
		packet = verdict.Packet(node, q.checks, at.Rung)
	}
	if verdict.Kind == "" {
		t.CacheAnswer(node, runstate.Cached{Value: verdict.Value, Class: at.Class})
		t.completeAnswer(node, verdict.Value, q.chosen(verdict.Value))
		return nil
	}
	if next, ok := ladder.Next(node, at.Rung, packet); ok {
		t.Visit.Asking = &runstate.Asking{Rung: next}
		t.Dispatch()
		return nil
	}
	t.FailVisit(exhaustedFailure(verdict, packet, at.Rung, f.ModelReply))
	return nil
}

// exhaustedFailure returns the failure of a node after its last attempt. Its data has the last answer.
func exhaustedFailure(v ladder.Verdict, p ladder.Packet, at ladder.Rung, r lattice.ModelReply) *expr.Failure {
	f := machine.Failf(v.Kind, "%s", v.Message)
	if at.Try > 1 {
		f.Message += fmt.Sprintf(" (after %d questions, the last to %s)", at.Try, at.Class)
	}
	data := map[string]any{
		"class": at.Class, "attempts": at.Try, "escalated": len(at.Used) > 0, "repaired": at.Retried,
		"errors": p.Errors, "previous_output": p.Previous, "previous_text": p.Text,
	}
	if r.Code != "" {
		data["code"] = r.Code
	}
	if r.Hint != "" {
		data["hint"] = r.Hint
	}
	f.Data = encodeDetails(data)
	return f
}

// chosen returns the complete candidate that an answer names, nil for other ops.
func (q inquiry) chosen(answer any) any {
	object, _ := answer.(map[string]any)
	want, err := expr.Marshal(object["id"])
	for i, id := range q.ids {
		if got, bad := expr.Marshal(id); err == nil && bad == nil && string(got) == string(want) {
			return q.whole[i]
		}
	}
	return nil
}

// completeAnswer completes a node with a valid answer. Further ports hold the number of attempts, the model class and so on.
func (t llmOp) completeAnswer(node *ir.Node, out, item any) {
	ports := map[string]any{"attempts": machine.Number(0), "escalated": false, "repaired": false, "cached": false, "class": nil, "item": item}
	if at := t.Visit.Asking; at != nil {
		ports["attempts"], ports["class"] = machine.Number(at.Try), at.Class
		ports["escalated"], ports["repaired"] = len(at.Used) > 0, at.Retried
	}
	if out == nil { // nothing was chosen, so that every member of the choice is null, too
		ports["id"] = nil
	}
	t.CompleteNode(out, ports)
}
