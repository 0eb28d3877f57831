package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// callIDKey names a call in the _meta of a request. A client that repeats a call with its id gets the recorded result,
// as with LATTICE_CALL_ID (DESIGN 14); without one each call is new.
const callIDKey = "spritekit/call_id"

// callSkill makes one call of a skill. Every failure is the result of the tool; a protocol error would reach the
// client's program, but not its model.
func (s *Server) callSkill(ctx context.Context, k Skill, t tool, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.stderr, "panic: %v\n%s", p, debug.Stack())
			result = newRefusal(k.Manifest.Name, "internal", fmt.Sprintf("the call of %s panicked: %v", k.Manifest.Name, p), "this is a defect; stderr of the server has the stack")
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	input := req.Params.Arguments
	if problem := t.checkInput(k.Manifest, input); problem != "" {
		return newRefusal(k.Manifest.Name, "bad_input", "the input is wrong: "+problem, "the tool's input schema says what it takes"), nil
	}
	if asked, done := s.askPerson(k.Manifest, req); done {
		return asked, nil
	}
	wanted, isImage := imageInput(k.Manifest.Name, input)
	env := s.options.Env
	if id, ok := req.Params.Meta[callIDKey].(string); ok {
		env.CallID = id
	}
	out := &stream{progress: s.reportProgress(ctx, req), verbose: s.options.Verbose, stderr: s.stderr}
	k.Serve(ctx, env, skill.IO{Stdin: bytes.NewReader(wanted), Stdout: out, Stderr: s.stderr})
	line := bytes.TrimSpace(out.last)
	said, ok := protocol.DecodeResult(line)
	if !ok {
		return newRefusal(k.Manifest.Name, "no_result", k.Manifest.Name+" ended without a result", "stderr of the server may say why"), nil
	}
	for _, p := range listMismatches(k.Manifest, said) {
		return newRefusal(k.Manifest.Name, "bad_output", fmt.Sprintf("%s did its work, but its data is not what its manifest promises: %s %s", k.Manifest.Name, p.Pointer, p.Message),
			"do not repeat the call; look at what it did"), nil
	}
	if isImage && said.OK {
		if shown := s.addImage(said); shown != nil {
			return shown, nil
		}
	}
	return newAnswer(line, !said.OK), nil
}

// checkInput applies the schema that a manifest brings; the runtime checks the rest, with better words.
func (t tool) checkInput(m manifests.Skill, input json.RawMessage) (problem string) {
	if t.input == nil {
		return ""
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	var value any
	if json.Unmarshal(input, &members) != nil || len(m.CheckInput(members)) > 0 || json.Unmarshal(input, &value) != nil {
		return "" // the runtime refuses it
	}
	if err := t.input.Validate(value); err != nil {
		return err.Error()
	}
	return ""
}

// listMismatches compares data with the outputs that the manifest promises: clients refuse a whole result for one wrong
// member. Data that was moved to a file is not looked at.
func listMismatches(m manifests.Skill, r protocol.Result) []manifests.Problem {
	var data map[string]json.RawMessage
	if !r.OK || r.Waiting != nil || json.Unmarshal(r.Data, &data) != nil || skill.Spilled(r) {
		return nil
	}
	return m.CheckOutput(data)
}

// newAnswer hands a result line to the client: as structured content, and as text for clients that know no other.
func newAnswer(line []byte, failed bool) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: string(line)}}, StructuredContent: json.RawMessage(bytes.Clone(line)), IsError: failed,
	}
}

// newRefusal answers in the place of a skill that did not.
func newRefusal(name, code, message, hint string) *sdk.CallToolResult {
	line, err := json.Marshal(protocol.Result{Skill: name, Error: &protocol.Fault{Code: code, Message: message, Hint: hint}})
	if err != nil { // strings always marshal
		panic(err)
	}
	return newAnswer(line, true)
}

// reportProgress returns a function that turns INFO events into notifications, nil for a client that did not ask for them.
func (s *Server) reportProgress(ctx context.Context, req *sdk.CallToolRequest) func(protocol.Info) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	last := 0.0
	return func(info protocol.Info) {
		p := &sdk.ProgressNotificationParams{ProgressToken: token, Message: info.Message, Progress: last + 1}
		var metadata struct{ Percent *float64 }
		if json.Unmarshal(info.Metadata, &metadata) == nil && metadata.Percent != nil {
			p.Progress, p.Total = *metadata.Percent, 100
		}
		if p.Progress <= last { // it must rise
			return
		}
		last = p.Progress
		_ = req.Session.NotifyProgress(ctx, p) // a courtesy; a client that is gone shows elsewhere
	}
}

// stream is the stdout of a call. Events are in the outbox already; the last line that is none is the result. The
// runtime writes from one goroutine at a time.
type stream struct {
	progress func(protocol.Info)
	verbose  bool
	stderr   io.Writer
	rest     []byte // of a line that has not ended
	last     []byte
}

func (s *stream) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, ended := bytes.Cut(s.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		s.handleLine(line)
		s.rest = rest
	}
}

func (s *stream) handleLine(line []byte) {
	body, isEvent := bytes.CutPrefix(line, []byte(protocol.Prefix))
	if !isEvent {
		s.last = bytes.Clone(line)
		return
	}
	if s.verbose {
		fmt.Fprintf(s.stderr, "%s\n", line)
	}
	if s.progress == nil {
		return
	}
	e, problems, ok := protocol.Decode(body)
	if !ok || len(problems) > 0 || e.Type != protocol.TypeInfo {
		return
	}
	if payload, err := e.Open(); err == nil {
		if info, ok := payload.(protocol.Info); ok && info.Kind == "progress" {
			s.progress(info)
		}
	}
}

// lockedWriter lets many write.
type lockedWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// askPerson lets the client ask its user the question of ask.user if the client can do that; done is false if the skill itself
// must ask. An agent in a sprite has no user there: its questions are for people outside.
func (s *Server) askPerson(m manifests.Skill, req *sdk.CallToolRequest) (result *sdk.CallToolResult, done bool) {
	if m.Name != askUser || s.options.Env.AgentCallID != "" || missingGrants(m, s.options.Env.Grants) != nil || !CanElicit(req.Session) {
		return nil, false
	}
	var q struct {
		Question string            `json:"question"`
		Choices  []string          `json:"choices"`
		Default  string            `json:"default"`
		Expected map[string]string `json:"expected_inputs"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(req.Params.Arguments, &members) != nil || len(m.CheckInput(members)) > 0 ||
		json.Unmarshal(req.Params.Arguments, &q) != nil || q.Question == "" {
		return nil, false // the skill refuses it, with better words
	}
	if len(q.Expected) == 0 {
		q.Expected = map[string]string{"answer": "string"}
	}
	properties, required := schema{}, []string{}
	for name, t := range q.Expected {
		switch t {
		case "string", "integer", "boolean":
		default:
			return nil, false // a form has no fields of other types
		}
		properties[name] = schema{"type": t}
		if name != "answer" || q.Default == "" {
			required = append(required, name)
		}
	}
	if field, ok := properties["answer"].(schema); ok && q.Expected["answer"] == "string" {
		if len(q.Choices) > 0 {
			field["enum"] = q.Choices
		}
		if q.Default != "" {
			field["default"] = q.Default
		}
	}
	response, ok := req.Params.InputResponses[elicitation].(*sdk.ElicitResult)
	if !ok {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{elicitation: &sdk.ElicitParams{
			Mode: "form", Message: q.Question,
			RequestedSchema: schema{"type": "object", "properties": properties, "required": required},
		}}}, true
	}
	switch response.Action {
	case "accept":
	case "decline":
		return newRefusal(m.Name, "declined", "the user declined to answer", "go on without the answer, or end the work"), true
	default:
		return newRefusal(m.Name, "not_answered", "the user gave no answer", "go on without the answer, or end the work"), true
	}
	data := map[string]any{"answers": response.Content}
	answers := response.Content
	if answers == nil {
		answers = map[string]any{}
		data["answers"] = answers
	}
	if q.Expected["answer"] == "string" {
		if text, _ := answers["answer"].(string); text != "" {
			data["answer"] = text
		} else if q.Default != "" {
			answers["answer"], data["answer"] = q.Default, q.Default
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return newRefusal(m.Name, "internal", err.Error(), ""), true
	}
	line, err := json.Marshal(protocol.Result{OK: true, Skill: m.Name, Data: raw})
	if err != nil {
		return newRefusal(m.Name, "internal", err.Error(), ""), true
	}
	return newAnswer(line, false), true
}

// askUser is the skill whose question a client can put to its own user.
const askUser = "ask.user"

// elicitation is the key of the question among the requests of a result.
const elicitation = "question"

// CanElicit reports whether the client of a session shows forms to a user.
func CanElicit(session *sdk.ServerSession) bool {
	p := session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	offers := p.Capabilities.Elicitation
	return offers.Form != nil || offers.URL == nil // neither is the word of older clients for forms
}
