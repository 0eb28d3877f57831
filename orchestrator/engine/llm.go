package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Nodes that ask models. A question is a command like a call; its answer is a fact, as it came. What the answer is worth
// is decided here, by package ladder: whoever folds the journal again decides the same and asks nobody. A question whose
// answer is not in the journal is asked again, and counts again.

// Asking is a node's visit while it asks models.
type Asking struct{ ladder.Rung }

// Spent is what questions to models have taken.
type Spent struct {
	Calls int `json:"llm_calls"` // questions, those asked again included
	lattice.ModelUsage
}

func (s Spent) plus(calls int, u lattice.ModelUsage) Spent {
	return Spent{Calls: s.Calls + calls, ModelUsage: s.ModelUsage.Plus(u)}
}

// inquiry is what one visit of a node asks about. It is worked out anew whenever it is needed: nothing that it reads
// changes while the node is at work.
type inquiry struct {
	in          map[string]any // as it is shown
	whole       []any          // LLM_CHOOSE: the candidates before they were shortened
	ids, labels []any
	trims       []ir.Trim
	checks      ladder.Checks
}

// startLLM begins a visit of an LLM_… node.
func (m *machine) startLLM(node *ir.Node) {
	q, f := m.inquire(node)
	if f != nil {
		m.fallTo(f)
		return
	}
	if node.Op == ir.OpLLMChoose && m.chooseAlone(node, q) {
		return
	}
	first := ladder.First(node)
	if m.at.Visit.Key = m.modelKey(node, first, q); m.recall(node) {
		return
	}
	m.at.Visit.Asking = &Asking{first}
	m.question()
}

// chooseAlone makes a choice that needs no model, if it is one.
func (m *machine) chooseAlone(node *ir.Node, q inquiry) bool {
	switch {
	case len(q.ids) == 0 && node.OnEmpty == "null":
		m.finishLLM(node, nil, nil)
	case len(q.ids) == 0:
		m.fallTo(failure(ir.FailInvariant, "%s has nothing to choose from", node.ID))
	case len(q.ids) == 1 && node.OnSingle != "ask":
		m.finishLLM(node, map[string]any{"id": q.ids[0]}, q.whole[0])
	default:
		return false
	}
	return true
}

// inquire evaluates the inputs of a node and what its answers are held against.
func (m *machine) inquire(node *ir.Node) (inquiry, *ir.Failure) {
	in, f := m.inputs(node)
	if f != nil {
		return inquiry{}, f
	}
	q := inquiry{in: in}
	for _, port := range slices.Sorted(maps.Keys(node.Inputs)) {
		if whole, f := ir.Eval(ir.Whole(node.Inputs[port]), m.scope(nil)); f == nil {
			q.trims = append(q.trims, ir.Trims("/"+port, whole, in[port])...)
		}
	}
	switch node.Op {
	case ir.OpLLMClassify:
		f = m.labels(node, &q)
	case ir.OpLLMChoose:
		f = m.candidates(node, &q)
	}
	if f != nil {
		return q, f
	}
	var err error
	if q.checks, err = ladder.NewChecks(node, func(name string) (json.RawMessage, bool) { return m.p.OutputSchema(node, name) }, q.in, q.ids, q.labels); err != nil {
		return q, failure(ir.FailSchema, "%v", err)
	}
	return q, nil
}

func (m *machine) labels(node *ir.Node, q *inquiry) *ir.Failure {
	v, f := ir.Eval(node.Labels, m.scope(nil))
	if f != nil {
		f.Message = "labels: " + f.Message
		return f
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return failure(ir.FailStateType, "the labels of %s are no array with something in it", node.ID)
	}
	for _, label := range list {
		if text, ok := label.(string); !ok || text == "" {
			return failure(ir.FailStateType, "a label of %s is no text", node.ID)
		}
	}
	q.labels = list
	if _, given := q.in["labels"]; !given {
		q.in["labels"] = list
	}
	return nil
}

// candidates finds out what there is to choose from. Those that the model sees may be shortened, and there may be fewer
// of them; what is chosen is the whole one.
func (m *machine) candidates(node *ir.Node, q *inquiry) *ir.Failure {
	expr := node.Candidates
	if expr == nil {
		expr = ir.Whole(node.Inputs["candidates"])
	}
	v, f := ir.Eval(expr, m.scope(nil))
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
		return failure(ir.FailStateType, "the candidates of %s are no array", node.ID)
	}
	member := node.IDField
	if member == "" {
		member = "id"
	}
	seen := map[string]bool{}
	for i, c := range shown {
		id, key, ok := identity(c, member)
		if !ok || seen[key] {
			return failure(ir.FailStateType, "candidate %d of %s has no %s of its own", i, node.ID, member)
		}
		seen[key] = true
		whole := slices.IndexFunc(all, func(w any) bool { _, k, ok := identity(w, member); return ok && k == key })
		if whole < 0 {
			return failure(ir.FailStateType, "candidate %s of %s is not among the whole candidates", key, node.ID)
		}
		q.ids, q.whole = append(q.ids, id), append(q.whole, all[whole])
	}
	return nil
}

// identity is the id of a candidate, and its JSON, by which ids are told apart.
func identity(candidate any, member string) (id any, key string, ok bool) {
	object, _ := candidate.(map[string]any)
	switch id = object[member]; id.(type) {
	case nil, []any, map[string]any, bool:
		return nil, "", false
	}
	text, err := ir.Marshal(id)
	return id, string(text), err == nil
}

// question asks on the current rung, when there is room and the limits allow it.
func (m *machine) question() {
	if m.hold() {
		return
	}
	node, at := m.p.Node(m.at.Node), m.at.Visit.Asking
	if at.Try == 1 && m.recall(node) { // another got it meanwhile
		return
	}
	q, f := m.inquire(node)
	if f != nil {
		m.fallTo(f)
		return
	}
	request, f := m.request(node, at.Rung, q)
	if f != nil {
		m.fallTo(f)
		return
	}
	if f := m.affords(request); f != nil {
		m.fallTo(f)
		return
	}
	m.spend(node.ID, 1, lattice.ModelUsage{})
	m.at.Visit.Attempt = at.Try
	m.issue(lattice.Command{Kind: lattice.DoModel, Model: &request})
}

// request words a question.
func (m *machine) request(node *ir.Node, at ladder.Rung, q inquiry) (lattice.ModelRequest, *ir.Failure) {
	template, ok := m.p.Template(node)
	if !ok {
		return lattice.ModelRequest{}, failure(ir.FailRef, "the prompt template %s is not there as the run was started with it", node.PromptTemplate)
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
		text, err := ir.Marshal(q.trims)
		if err != nil {
			return r, failure(ir.FailStateType, "encode what was shortened: %v", err)
		}
		r.Trimmed = text
	}
	if r.MaxOutputTokens == 0 {
		r.MaxOutputTokens = ir.DefaultOutputTokens
	}
	if l := m.p.Doc.Limits; l != nil && l.MaxCostUSD > 0 {
		left := max(0, l.MaxCostUSD-m.s.Models.CostUSD)
		r.BudgetUSD = &left
	}
	return r, nil
}

// affords holds a question against the limits on calls and tokens before it is asked. A prompt has about a token for four
// bytes; what is under way may use all that it is allowed. Money is held against prices, which whoever asks knows.
func (m *machine) affords(r lattice.ModelRequest) *ir.Failure {
	l := m.p.Doc.Limits
	if l == nil {
		return nil
	}
	if l.MaxLLMCalls > 0 && m.s.Models.Calls >= l.MaxLLMCalls {
		return failure(ir.FailLimit, "the run has asked models %d times; max_llm_calls is %d", m.s.Models.Calls, l.MaxLLMCalls)
	}
	if l.MaxTokens == 0 {
		return nil
	}
	wanted := m.s.Models.Tokens() + likely(r)
	for _, c := range m.s.Pending {
		if c.Model != nil {
			wanted += likely(*c.Model)
		}
	}
	if wanted > l.MaxTokens {
		return failure(ir.FailLimit, "with another question the run may have used %d tokens; max_tokens is %d", wanted, l.MaxTokens)
	}
	return nil
}

func likely(r lattice.ModelRequest) int { return (len(r.System)+len(r.User))/4 + r.MaxOutputTokens }

// spend counts questions, in all and by node.
func (m *machine) spend(node string, calls int, u lattice.ModelUsage) {
	m.s.Models = m.s.Models.plus(calls, u)
	if m.s.ModelsBy == nil {
		m.s.ModelsBy = map[string]Spent{}
	}
	m.s.ModelsBy[node] = m.s.ModelsBy[node].plus(calls, u)
}

// alone reports whether a question is under way that has to end before the next one, because both draw on one budget.
func (m *machine) alone() bool {
	l := m.p.Doc.Limits
	return l != nil && l.MaxCostUSD > 0 && slices.ContainsFunc(m.s.Pending, func(c lattice.Command) bool { return c.Kind == lattice.DoModel })
}

func (m *machine) modelAnswered(f lattice.ModelAnswered) error {
	if c, ok := m.s.pending(f.CommandID); ok && c.Model != nil && c.Model.Digest() != f.Request {
		return fmt.Errorf("the answer to %s is one to another question: %s was asked, %s is recorded", f.CommandID, c.Model.Digest(), f.Request)
	}
	c, err := m.answer(f.CommandID, lattice.DoModel)
	if err != nil {
		return err
	}
	if m.at.Visit == nil || m.at.Visit.Asking == nil {
		return errors.New("an answer for a node that asks nothing")
	}
	m.spend(c.Node, 0, f.Usage)
	node, at := m.p.Node(c.Node), m.at.Visit.Asking
	q, bad := m.inquire(node)
	if bad != nil {
		m.fallTo(bad)
		return nil
	}
	verdict := ladder.Verdict{Kind: f.Kind, Message: f.Message, Text: f.Text}
	packet := ladder.Failed(node, q.checks, at.Rung, f.Kind, f.Message, f.Text)
	if f.Kind == "" {
		verdict = q.checks.Judge(f.Text)
		packet = verdict.Packet(node, q.checks, at.Rung)
	}
	if verdict.Kind == "" {
		m.keepAnswer(node, verdict.Value)
		m.finishLLM(node, verdict.Value, q.chosen(verdict.Value))
		return nil
	}
	if next, ok := ladder.Next(node, at.Rung, packet); ok {
		m.at.Visit.Asking = &Asking{next}
		m.question()
		return nil
	}
	m.fallTo(exhausted(verdict, packet, at.Rung, f.ModelReply))
	return nil
}

// exhausted is the failure of a node after its last question. The last answer is in its data, and nowhere else.
func exhausted(v ladder.Verdict, p ladder.Packet, at ladder.Rung, r lattice.ModelReply) *ir.Failure {
	f := failure(v.Kind, "%s", v.Message)
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
	f.Data = details(data)
	return f
}

// chosen is the whole candidate that an answer names, nil for other ops.
func (q inquiry) chosen(answer any) any {
	object, _ := answer.(map[string]any)
	want, err := ir.Marshal(object["id"])
	for i, id := range q.ids {
		if got, bad := ir.Marshal(id); err == nil && bad == nil && string(got) == string(want) {
			return q.whole[i]
		}
	}
	return nil
}

// finishLLM completes a node with an answer that holds. Beside the answer's members its ports say what it took.
func (m *machine) finishLLM(node *ir.Node, out, item any) {
	extra := map[string]any{"attempts": number(0), "escalated": false, "repaired": false, "cached": false, "class": nil, "item": item}
	if at := m.at.Visit.Asking; at != nil {
		extra["attempts"], extra["class"] = number(at.Try), at.Class
		extra["escalated"], extra["repaired"] = len(at.Used) > 0, at.Retried
	}
	if out == nil { // nothing was chosen, so that every member of the choice is null, too
		extra["id"] = nil
	}
	m.extra = extra
	m.finish(out)
	m.extra = nil
}

// askedAgain counts a question that is repeated, because nobody knows whether it was answered.
func (m *machine) askedAgain(f lattice.ModelAskedAgain) error {
	i := slices.IndexFunc(m.s.Pending, func(c lattice.Command) bool { return c.ID == f.CommandID && c.Kind == lattice.DoModel })
	if i < 0 || f.Again != m.s.Pending[i].Again+1 {
		return fmt.Errorf("%w: question %s is not pending, or was asked again before", ErrStale, f.CommandID)
	}
	c := &m.s.Pending[i] // a copy of this step's own
	if l := m.p.Doc.Limits; l != nil && l.MaxLLMCalls > 0 && m.s.Models.Calls >= l.MaxLLMCalls {
		if _, err := m.answer(f.CommandID, lattice.DoModel); err != nil {
			return err
		}
		m.fallTo(failure(ir.FailLimit, "a question was cut off, and max_llm_calls %d leaves none to ask it again", l.MaxLLMCalls))
		return nil
	}
	c.Again++
	m.spend(c.Node, 1, lattice.ModelUsage{})
	return nil
}
