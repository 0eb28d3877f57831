package ladder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/spritekit/text"
)

// Checks are the checks of the answers of one visit of a node. Use NewChecks.
type Checks struct {
	SchemaName string
	Schema     json.RawMessage

	node    *ir.Node
	schemas func(name string) (json.RawMessage, bool)
	in      map[string]any // the node's inputs, as they were shown: $in of invariants

	ids, labels       []any
	hasIDs, hasLabels bool
}

// NewChecks collects the checks of a node's answers: its output schema, its validators, and those that its op implies. ids
// are the ids of the candidates in the prompt, labels the allowed labels.
func NewChecks(n *ir.Node, schemas func(name string) (json.RawMessage, bool), in map[string]any, ids, labels []any) (Checks, error) {
	c := Checks{SchemaName: n.OutputSchema, node: n, schemas: schemas, in: in}
	c.hasIDs, c.hasLabels = n.Op == ir.OpLLMChoose, n.Op == ir.OpLLMClassify
	c.ids, c.labels = ids, labels
	var ok bool
	if c.Schema, ok = schemas(n.OutputSchema); !ok {
		return c, fmt.Errorf("there is no schema %q", n.OutputSchema)
	}
	for i, schema := range c.schemaValidators() {
		if schema == nil {
			continue
		}
		if err := CheckSchema(schema); err != nil { // before a request is made
			return c, fmt.Errorf("schema of validator %d of %s: %w", i, n.ID, err)
		}
	}
	return c, nil
}

// Verdict is the result of checking an answer. The answer is valid if Kind is "".
type Verdict struct {
	Kind     string // of failure
	Message  string
	Problems []Problem
	Value    any // the decoded answer, if it is JSON
	Parsed   bool
	Text     string // the answer as received
	Defenced bool   // a code fence or surrounding text was removed
}

// Judge decodes an answer and runs all checks. Invariants are evaluated only if the answer satisfies the schemas.
func (c Checks) Judge(text string) Verdict {
	v := Verdict{Text: text}
	var err error
	if v.Value, v.Defenced, err = parseAnswer(text); err != nil {
		return v.withProblems(expr.FailParse, []Problem{newProblem(-1, "", "not_json", "%v", err)})
	}
	v.Parsed = true
	var wrong []Problem
	for i, schema := range c.schemaValidators() {
		if schema == nil {
			continue
		}
		found, err := validateValue(schema, v.Value)
		if err != nil {
			return v.withProblems(expr.FailSchema, []Problem{newProblem(i, "", "schema_invalid", "%v", err)})
		}
		for _, p := range found {
			p.Validator = i
			wrong = append(wrong, p)
		}
	}
	if len(wrong) > 0 {
		return v.withProblems(expr.FailSchema, wrong)
	}
	if wrong = c.checkInvariants(v); len(wrong) > 0 {
		return v.withProblems(expr.FailInvariant, wrong)
	}
	return v
}

// withProblems returns v as a failure with the first problems; the message is that of the first one.
func (v Verdict) withProblems(kind string, problems []Problem) Verdict {
	v.Kind, v.Problems = kind, problems[:min(len(problems), maxProblems)]
	v.Message = problems[0].Message
	if kind == expr.FailSchema {
		v.Message = firstProblem(problems, nil)
	}
	if len(problems) > 1 {
		v.Message += fmt.Sprintf(" (and %d more)", len(problems)-1)
	}
	return v
}

// schemaValidators are the schemas by the number of their validator; nil where that is another check.
func (c Checks) schemaValidators() []json.RawMessage {
	list := []json.RawMessage{c.Schema}
	for _, checked := range c.node.Validators {
		var schema json.RawMessage
		if checked.Type == "json_schema" && checked.Schema != c.SchemaName {
			schema, _ = c.schemas(checked.Schema) // names are checked before the run
		}
		list = append(list, schema)
	}
	return list
}

// checkInvariants are the checks of an answer that fits the schemas, implied ones first.
func (c Checks) checkInvariants(v Verdict) []Problem {
	var wrong []Problem
	out, _ := v.Value.(map[string]any)
	implied := c.impliedValidator()
	if c.hasIDs && !oneOf(out["id"], c.ids) {
		wrong = append(wrong, newProblem(implied, "/id", "not_in_set", "id must be one of candidate ids"))
	}
	if c.hasLabels && !oneOf(out["label"], c.labels) && !(c.node.AllowUnknown && out["label"] == "unknown") {
		wrong = append(wrong, newProblem(implied, "/label", "not_in_set", "label must be one of the given labels"))
	}
	for i, checked := range c.node.Validators {
		switch n := i + 1; {
		case n == implied:
		case checked.Type == "invariant":
			if p, bad := c.checkInvariant(n, checked, v.Value); bad {
				wrong = append(wrong, p)
			}
		case checked.Type == "no_extra_text" && v.Defenced:
			wrong = append(wrong, newProblem(n, "", "extra_text", "answer with the object alone: no code fence, no other words"))
		case checked.Type == "max_chars":
			wrong = append(wrong, tooLong(n, "", v.Value, checked.Max)...)
		}
	}
	return wrong
}

// impliedValidator returns the number of the validator that repeats the implied check of the op, -1 if there is none.
func (c Checks) impliedValidator() int {
	for i, checked := range c.node.Validators {
		said := strings.ReplaceAll(checked.Expr, " ", "") == "$out.idin$in.candidates[*].id" && (c.node.IDField == "" || c.node.IDField == "id")
		if c.hasIDs && (said || checked.Type == "choice_in_candidates") || c.hasLabels && checked.Type == "label_in_set" {
			return i + 1
		}
	}
	return -1
}

func (c Checks) checkInvariant(n int, checked ir.Validator, out any) (Problem, bool) {
	cond, text := checked.AST, checked.Message
	if checked.Expr != "" {
		var err error
		if cond, err = expr.ParseCond(checked.Expr); err != nil {
			return newProblem(n, "", "invariant_invalid", "%v", err), true
		}
	}
	text = cmp.Or(text, "this must hold: "+checked.Expr)
	holds, f := cond.True(expr.Scope{In: c.in, Out: out})
	switch {
	case f != nil:
		return newProblem(n, "", "invariant", "%s (%s)", text, f.Message), true
	case !holds:
		return newProblem(n, "", "invariant", "%s", text), true
	}
	return Problem{}, false
}

// oneOf reports whether v is in the list, as the same JSON.
func oneOf(v any, list []any) bool {
	want, err := expr.Marshal(v)
	if err != nil || v == nil {
		return false
	}
	for _, item := range list {
		if got, err := expr.Marshal(item); err == nil && bytes.Equal(got, want) {
			return true
		}
	}
	return false
}

// tooLong finds the texts in v that have more than n characters.
func tooLong(validator int, path string, v any, n int) (wrong []Problem) {
	switch v := v.(type) {
	case string:
		if count := utf8.RuneCountInString(v); count > n {
			wrong = append(wrong, newProblem(validator, path, "max_chars", "it has %d characters; at most %d are allowed", count, n))
		}
	case []any:
		for i := range v {
			wrong = append(wrong, tooLong(validator, finding.ExtendPointer(path, strconv.Itoa(i)), v[i], n)...)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			wrong = append(wrong, tooLong(validator, finding.ExtendPointer(path, k), v[k], n)...)
		}
	}
	return wrong
}

// maxDepth bounds the nesting of answers.
const maxDepth = 64

// IsJSON reports whether an answer can be decoded.
func IsJSON(answer string) bool {
	_, _, err := parseAnswer(answer)
	return err == nil
}

// parseAnswer decodes an answer as one JSON value. If that fails, it tries again without the code fence, or with the text
// from the first to the last brace. It repairs nothing else.
func parseAnswer(text string) (v any, defenced bool, err error) {
	text = strings.TrimSpace(text)
	if v, err = decodeStrict(text); err == nil {
		return v, false, nil
	}
	if inner, ok := stripFence(text); ok {
		if v, again := decodeStrict(inner); again == nil {
			return v, true, nil
		}
	}
	return nil, false, err
}

// stripFence removes a code fence, or the text around an object.
func stripFence(text string) (string, bool) {
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		if inner, closed := strings.CutSuffix(rest, "```"); closed {
			if line, body, many := strings.Cut(inner, "\n"); many && !strings.Contains(line, "{") {
				inner = body // the fence's language
			}
			return strings.TrimSpace(inner), true
		}
	}
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return "", false
	}
	return text[from : to+1], true
}

// decodeStrict decodes one JSON value. It refuses duplicate keys and deep nesting.
func decodeStrict(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("the answer is not JSON: something follows the first value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string) // encoding/json allows no other type
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("the key %q appears twice", name)
			}
			if object[name], err = decodeValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return object, err
	}
	return token, nil
}

// Packet returns the packet with the problems of v for the request after at.
func (v Verdict) Packet(n *ir.Node, c Checks, at Rung) Packet {
	p := Packet{
		Version: "1", Node: n.ID, Attempt: at.Attempt + 1, MaxAttempts: at.Limit, Kind: v.Kind, Error: v.Message, Errors: v.Problems,
		Schema: c.SchemaName, Instruction: "fix_only",
	}
	if c.hasIDs {
		p.AllowedIDs = c.ids[:min(len(c.ids), maxAllowed)]
	}
	if c.hasLabels {
		p.Allowed = c.labels[:min(len(c.labels), maxAllowed)]
	}
	if raw, err := expr.Marshal(v.Value); v.Parsed && err == nil && len([]rune(string(raw))) <= maxPrevious {
		p.Previous = raw
		return p
	}
	previous := text.HeadRunes(v.Text, maxPrevious)
	p.Previous, p.Text = json.RawMessage("null"), &previous
	return p
}

// Failed returns the packet for a failure without an answer to check, such as a refusal.
func Failed(n *ir.Node, c Checks, at Rung, kind, message, answer string) Packet {
	v := Verdict{Kind: kind, Message: message, Text: answer, Problems: []Problem{{Validator: -1, Code: kind, Message: text.HeadRunes(message, maxMessage)}}}
	return v.Packet(n, c, at)
}
