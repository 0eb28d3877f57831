// Package flowline reads flows of one line, such as "git.clone url=$in.url | test.run", into workflow graphs. Start with
// [Parse]. The package runs nothing and reads no files.
package flowline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Error is a fault of a line, at a place that a person can be shown.
type Error struct {
	Column  int    `json:"column"` // of its first character, from 1
	Width   int    `json:"width"`  // in characters, at least 1
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Input is an input that a flow asks for.
type Input struct {
	Name, Type, Description string
	Steps                   []string // that take it
}

// Parse composes a workflow graph from one line of skills:
//
//	line = step *("|" step)               one after the other
//	step = skill *(pair)                  git.clone url=https://example.com/x depth:=1
//	pair = name "=" text | name ":=" JSON
//
// Text is quoted as in a shell: 'as it is', "with \" \\ \$", a backslash before one character; pieces without blanks
// between them join. Outside of single quotes $in.x is an input of the flow, $git_clone.head an output of an earlier
// step; ${in.x} where more text follows. Text that is one reference keeps the type of the value; text around
// references makes text. Inside of JSON a string that is a reference is one. A step is called by its skill, with _ for
// dots, and a number from the second on: git_clone, git_clone_2.
//
// Required inputs that no pair gives become inputs of the flow by their name, shared by the steps that want the same
// type. The result of the flow is the last step's. All errors are reported, in the order of their columns.
func Parse(text string, tools compile.Tools) (compile.Workflow, []Input, []Error) {
	p := lineParser{text: text, places: map[string]span{}, tools: tools}
	if at := strings.Index(strings.ToValidUTF8(text, "\xff"), "\xff"); at >= 0 {
		p.addError(span{at, at + 1}, "not_utf8", "write the line in UTF-8", "the line is not valid UTF-8")
		return compile.Workflow{}, nil, p.errors
	}
	w := p.parseLine()
	inputs := p.askForMissing(&w)
	if len(p.errors) == 0 {
		p.checkWorkflow(w)
	}
	slices.SortStableFunc(p.errors, func(a, b Error) int { return cmp.Compare(a.Column, b.Column) })
	return w, inputs, p.errors
}

// span is a piece of the line, as byte offsets.
type span struct{ from, to int }

type lineParser struct {
	text   string
	at     int
	tools  compile.Tools
	errors []Error
	ids    []string        // of the steps so far
	places map[string]span // pointer into the workflow → where it was written
	given  []map[string]bool
}

func (p *lineParser) addError(s span, code, hint, format string, args ...any) {
	s.from = min(s.from, len(p.text))
	p.errors = append(p.errors, Error{
		Column: utf8.RuneCountInString(p.text[:s.from]) + 1,
		Width:  max(1, utf8.RuneCountInString(p.text[s.from:max(s.from, min(s.to, len(p.text)))])),
		Code:   code, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (p *lineParser) skipBlanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// atWordEnd reports whether the current word ends here.
func (p *lineParser) atWordEnd() bool {
	return p.at >= len(p.text) || strings.IndexByte(" \t\r\n|", p.text[p.at]) >= 0
}

func (p *lineParser) parseLine() compile.Workflow {
	w := compile.Workflow{Schema: manifests.SchemaURL("workflow"), Version: compile.Version, Nodes: []compile.Step{}}
	for {
		s, ok := p.parseStep(len(w.Nodes))
		if ok {
			w.Nodes = append(w.Nodes, s)
			if n := len(w.Nodes); n > 1 {
				w.Edges = append(w.Edges, ir.Edge{From: w.Nodes[n-2].ID, To: s.ID})
			}
		}
		if p.at >= len(p.text) || !ok {
			break
		}
		p.at++ // the bar
	}
	if n := len(w.Nodes); n > 0 {
		w.Output = quoteJSON("$vars." + w.Nodes[n-1].ID)
	}
	return w
}

// parseStep parses one step up to the next bar. ok is false if the rest of the line cannot be parsed.
func (p *lineParser) parseStep(index int) (s compile.Step, ok bool) {
	p.skipBlanks()
	start := p.at
	for !p.atWordEnd() && p.text[p.at] != '=' {
		p.at++
	}
	place := span{start, p.at}
	s.Type = p.text[start:p.at]
	switch {
	case s.Type == "" || !p.atWordEnd():
		p.addError(span{start, max(p.at, start+1)}, "step_empty", "git.clone url=… | test.run", "a step begins with the name of a skill")
		return s, false
	case !utf8.ValidString(s.Type) || !ir.IDPattern().MatchString(s.Type):
		p.addError(place, "tool_unknown", "lattice skill ls lists them", "%q is not a valid name for a skill", s.Type)
		return s, false
	}
	s.ID = p.freeID(strings.ReplaceAll(s.Type, ".", "_"))
	at := "/nodes/" + strconv.Itoa(index)
	p.places[at], p.places[at+"/type"] = place, place
	p.given = append(p.given, map[string]bool{})
	var in []byte
	for {
		p.skipBlanks()
		if p.at >= len(p.text) || p.text[p.at] == '|' {
			break
		}
		name, value, ok := p.parsePair(at)
		if !ok {
			return s, false
		}
		in = appendMember(in, name, value)
	}
	if in != nil {
		s.In = append(in, '}')
	}
	p.ids = append(p.ids, s.ID)
	return s, true
}

func appendMember(object []byte, name string, value json.RawMessage) []byte {
	sep := byte(',')
	if object == nil {
		sep = '{'
	}
	object = append(append(object, sep), quoteJSON(name)...)
	return append(append(object, ':'), value...)
}

func (p *lineParser) freeID(id string) string {
	for n, base := 2, id; slices.Contains(p.ids, id); n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	return id
}

// parsePair reads k=text or k:=JSON.
func (p *lineParser) parsePair(step string) (string, json.RawMessage, bool) {
	start := p.at
	for !p.atWordEnd() && p.text[p.at] != '=' {
		p.at++
	}
	name, typed := strings.CutSuffix(p.text[start:p.at], ":")
	if p.at >= len(p.text) || p.text[p.at] != '=' || name == "" || !ir.IDPattern().MatchString(name) && name[0] != '_' {
		p.addError(span{start, max(p.at, start+1)}, "pair_invalid", "name=text or name:=JSON; | begins the next step", "%q is not an input of a step", p.text[start:p.at])
		return "", nil, false
	}
	p.at++
	given := p.given[len(p.given)-1]
	if given[name] {
		p.addError(span{start, p.at - 1}, "key_duplicate", "remove one of the two", "the input %q is given twice", name)
	}
	given[name] = true
	var value json.RawMessage
	ok := true
	if typed {
		value, ok = p.parseJSON()
	} else {
		value, ok = p.parseValue()
	}
	p.places[step+"/in/"+name] = span{start, p.at}
	return name, value, ok
}

// parseJSON parses one JSON value, which may be in single quotes.
func (p *lineParser) parseJSON() (json.RawMessage, bool) {
	start, rest := p.at, p.text[p.at:]
	quoted := strings.HasPrefix(rest, "'")
	if quoted {
		end := strings.IndexByte(rest[1:], '\'')
		if end < 0 {
			p.addError(span{start, len(p.text)}, "quote_open", "close it with '", "the quote that begins here does not end")
			return nil, false
		}
		rest = rest[1 : 1+end]
	}
	d := json.NewDecoder(strings.NewReader(rest))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	size := int(d.InputOffset())
	switch {
	case err != nil:
		p.addError(span{start, start + len(strings.TrimRight(rest, " "))}, "json_invalid", `use name=text for text`, "this is not JSON: %v", err)
		return nil, false
	case quoted && strings.TrimSpace(rest[size:]) != "":
		p.addError(span{start, start + len(rest) + 2}, "json_invalid", "", "there is more than one JSON value in the quotes")
		return nil, false
	case quoted:
		size = len(rest) + 2
	}
	p.at += size
	if !p.atWordEnd() {
		p.addError(span{p.at, p.at + 1}, "json_invalid", "add a space after it", "there must be a space after the JSON value")
		return nil, false
	}
	text, err := expr.Marshal(p.qualifyRefs(v, span{start, p.at}))
	if err != nil {
		p.addError(span{start, p.at}, "json_invalid", "", "%v", err)
	}
	return text, err == nil
}

// qualifyRefs turns strings that refer to steps into references to their outputs.
func (p *lineParser) qualifyRefs(v any, s span) any {
	switch v := v.(type) {
	case string:
		name := stepRef().FindString(v)
		if name == "" || expr.RefAt("$vars"+v[len(name):]) != "$vars"+v[len(name):] {
			return v
		}
		return p.resolveName(name[1:], v[len(name):], s)
	case []any:
		for i := range v {
			v[i] = p.qualifyRefs(v[i], s)
		}
	case map[string]any:
		if _, ok := v["lit"]; ok && len(v) == 1 {
			return v
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = p.qualifyRefs(v[k], s)
		}
	}
	return v
}

func quoteJSON(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has a text
	return bytes.TrimSpace(b.Bytes())
}

// checkWorkflow compiles the workflow and maps its findings to positions in the line.
func (p *lineParser) checkWorkflow(w compile.Workflow) {
	data, err := json.Marshal(w)
	if err != nil {
		p.addError(span{0, len(p.text)}, "json_invalid", "", "write the workflow: %v", err)
		return
	}
	_, findings := compile.Parse(data, p.tools)
	for _, f := range findings {
		if f.Severity != finding.SeverityError {
			continue
		}
		place, at := span{0, len(p.text)}, f.Pointer
		for ; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
			if s, ok := p.places[at]; ok {
				place = s
				break
			}
		}
		if f.Code == "type_unknown" { // in a document the name could be that of another kind of step
			f.Code, f.Message = "tool_unknown", fmt.Sprintf("there is no skill %q", p.text[place.from:place.to])
			if !strings.HasPrefix(f.Hint, "did you mean") {
				f.Hint = "lattice skill ls lists them; text that holds a | is quoted: 'a|b'"
			}
		}
		if pair := p.text[place.from:place.to]; f.Code == "arg_type" && strings.Contains(pair, "=") {
			if name, text, _ := strings.Cut(pair, "="); !strings.HasSuffix(name, ":") && json.Valid([]byte(text)) {
				f.Hint = name + ":=" + text
			}
		}
		p.addError(place, f.Code, f.Hint, "%s", f.Message)
	}
}

// askForMissing makes inputs of the flow from required inputs that nothing gives, and lists all inputs of the flow.
func (p *lineParser) askForMissing(w *compile.Workflow) []Input {
	inputs := map[string]*Input{}
	for i := range w.Nodes {
		s := &w.Nodes[i]
		skill, _ := p.tools(s.Type)
		for _, f := range skill.Inputs {
			if !f.Required || p.given[i][f.Name] || f.Default != nil {
				continue
			}
			name := f.Name
			if former, ok := inputs[name]; ok && former.Type != f.Type {
				name = s.ID + "_" + f.Name
			}
			if inputs[name] == nil {
				inputs[name] = &Input{Name: name, Type: f.Type, Description: f.Description}
			}
			inputs[name].Steps = append(inputs[name].Steps, s.ID)
			s.In = append(appendMember(bytes.TrimSuffix(s.In, []byte("}")), f.Name, quoteJSON("$in."+name)), '}')
		}
	}
	var out []Input
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		out = append(out, *inputs[name])
	}
	return out
}
