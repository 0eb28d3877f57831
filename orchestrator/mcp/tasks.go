package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/follow"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	skillmcp "github.com/spritekit/lattice/spritekit/mcp"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The extension Tasks of MCP 2026-07-28 (SEP-2663): a call of flow_run returns a task, and the client polls it.
//
//	tools/call flow_run  ─▶ task, whose id is the run's
//	tasks/get            ─▶ working │ input_required │ completed │ cancelled
//	tasks/update         ─▶ decisions of the client's user, if Options.Decide allows them
//	tasks/cancel         ─▶ cancels the run
const (
	extension = "io.modelcontextprotocol/tasks"
	// pollEvery is how often a client asks, in milliseconds.
	pollEvery = 1000
	// codeCapability is the error for a client that did not declare an extension.
	codeCapability = -32021
)

// task is a run as the extension describes it.
type task struct {
	sdk.ResultBase
	ResultType    string              `json:"resultType"`
	TaskID        string              `json:"taskId"`
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage,omitempty"`
	CreatedAt     time.Time           `json:"createdAt"`
	LastUpdatedAt time.Time           `json:"lastUpdatedAt"`
	TTL           *int64              `json:"ttlMs"` // null: runs are kept
	PollInterval  int                 `json:"pollIntervalMs"`
	InputRequests sdk.InputRequestMap `json:"inputRequests,omitempty"`
	Result        *sdk.CallToolResult `json:"result,omitempty"`
}

// taskParams are the parameters of the three methods.
type taskParams struct {
	sdk.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// acknowledged is the result of tasks/update and tasks/cancel.
type acknowledged struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// addTasks adds the methods, and turns the result of flow_run into a task.
func (s *Server) addTasks() error {
	s.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			call, isCall := req.(*sdk.CallToolRequest)
			if err != nil || !isCall || call.Params.Name != runFlowTool || !declaresTasks(call.Params, call.Session) {
				return result, err
			}
			return s.createTask(ctx, call.Session, result)
		}
	})
	for method, do := range map[string]func(context.Context, *sdk.ServerSession, *taskParams) error{"tasks/update": s.updateTask, "tasks/cancel": s.cancelTask} {
		if err := sdk.AddReceivingCustomMethod(s.server, method, func(ctx context.Context, session *sdk.ServerSession, p *taskParams) (*acknowledged, error) {
			return &acknowledged{ResultType: "complete"}, do(ctx, session, p)
		}); err != nil {
			return err
		}
	}
	return sdk.AddReceivingCustomMethod(s.server, "tasks/get", s.getTask)
}

// createTask returns the task of the run that a call has started, or the result of a call that has started none.
func (s *Server) createTask(ctx context.Context, session *sdk.ServerSession, result sdk.Result) (sdk.Result, error) {
	called, ok := result.(*sdk.CallToolResult)
	if !ok || called.IsError {
		return result, nil
	}
	var run struct {
		RunID string `json:"run_id"`
	}
	content, ok := called.StructuredContent.(json.RawMessage)
	if !ok || json.Unmarshal(content, &run) != nil || run.RunID == "" {
		return result, nil
	}
	t, err := withLeader(ctx, s, session, func(c *connect.Conn) (*task, error) { return s.loadTask(ctx, c, session, run.RunID) })
	if err != nil {
		return nil, newProtocolError(err)
	}
	t.ResultType, t.InputRequests, t.Result = "task", nil, nil
	return t, nil
}

func (s *Server) getTask(ctx context.Context, session *sdk.ServerSession, p *taskParams) (*task, error) {
	return withTask(ctx, s, session, p, func(c *connect.Conn) (*task, error) { return s.loadTask(ctx, c, session, p.TaskID) })
}

func (s *Server) updateTask(ctx context.Context, session *sdk.ServerSession, p *taskParams) error {
	_, err := withTask(ctx, s, session, p, func(c *connect.Conn) (api.RunView, error) {
		v, err := findLast(ctx, c, p.TaskID)
		if err != nil {
			return v, err
		}
		open, err := readOpen(v, p.InputResponses)
		if err != nil {
			return v, err
		}
		return s.applyResponses(ctx, c, v, open)
	})
	return err
}

// readOpen reads the responses to the open waits of a run, and ignores all others.
func readOpen(v api.RunView, responses map[string]json.RawMessage) (sdk.InputResponseMap, error) {
	open := map[string]json.RawMessage{}
	for _, w := range v.Waits {
		if r, ok := responses[w.ID]; ok {
			open[w.ID] = r
		}
	}
	text, err := json.Marshal(open)
	read := sdk.InputResponseMap{}
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		return nil, fault.BadInput("bad_input", "the response is none: %v", err)
	}
	return read, nil
}

func (s *Server) cancelTask(ctx context.Context, session *sdk.ServerSession, p *taskParams) error {
	_, err := withTask(ctx, s, session, p, func(c *connect.Conn) (api.RunView, error) {
		v, err := findLast(ctx, c, p.TaskID)
		if err != nil || v.Status.Ended() {
			return v, err
		}
		return c.Cancel(ctx, v.RunID, s.env.User)
	})
	return err
}

// withTask calls do for a client that declared the extension. Errors are those of the protocol.
func withTask[Out any](ctx context.Context, s *Server, session *sdk.ServerSession, p *taskParams, do func(*connect.Conn) (Out, error)) (out Out, err error) {
	switch {
	case p == nil || p.TaskID == "":
		return out, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskId is missing"}
	case !declaresTasks(p, session):
		return out, &jsonrpc.Error{Code: codeCapability, Message: "the request does not declare the extension " + extension,
			Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`)}
	}
	if out, err = withLeader(ctx, s, session, do); err != nil {
		err = newProtocolError(err)
	}
	return out, err
}

// newProtocolError returns an error as JSON-RPC has it.
func newProtocolError(err error) *jsonrpc.Error {
	p, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.Fault.Message}
	if p.Exit == protocol.ExitNotFound || p.Exit == protocol.ExitBadInput {
		e.Code = jsonrpc.CodeInvalidParams
	}
	e.Data, _ = json.Marshal(p) // texts only
	return e
}

// declaresTasks reports whether a client declares the extension: with the request itself or, before version 2026-07-28, when it
// connected.
func declaresTasks(p interface{ GetMeta() map[string]any }, session *sdk.ServerSession) bool {
	if said, ok := p.GetMeta()[sdk.MetaKeyClientCapabilities]; ok {
		capabilities, _ := said.(map[string]any)
		extensions, _ := capabilities["extensions"].(map[string]any)
		_, ok := extensions[extension]
		return ok
	}
	begun := session.InitializeParams()
	if begun == nil || begun.Capabilities == nil {
		return false
	}
	_, ok := begun.Capabilities.Extensions[extension]
	return ok
}

// findLast returns the run with an id, or the one in which it goes on after a legacy question was answered.
func findLast(ctx context.Context, c *connect.Conn, id string) (api.RunView, error) {
	v, err := findRun(ctx, c, id)
	for err == nil && v.ContinuedIn != "" {
		v, err = c.Run(ctx, v.ContinuedIn)
	}
	return v, err
}

func (s *Server) loadTask(ctx context.Context, c *connect.Conn, session *sdk.ServerSession, id string) (*task, error) {
	v, err := findLast(ctx, c, id)
	if err == nil {
		v, err = s.goOn(ctx, c, v)
	}
	if err != nil {
		return nil, err
	}
	page := ""
	if needsPerson(v) && !s.o.Decide && canOpen(session) {
		hello, err := c.Hello(ctx)
		if err != nil {
			return nil, err
		}
		page = hello.HTTP
	}
	return s.newTask(id, v, page), nil
}

// goOn has a run go on that a leader left when it was killed. Over HTTP the leader is one that continues all of them.
func (s *Server) goOn(ctx context.Context, c *connect.Conn, v api.RunView) (api.RunView, error) {
	if s.o.Over != nil || v.Driving || v.Stopped || v.Problem != nil || v.Status != lattice.Pending && v.Status != lattice.Running {
		return v, nil
	}
	values, err := s.env.Values().Renew(v, nil)
	if err != nil {
		return v, err
	}
	return c.KeepDriving(ctx, v, values)
}

// newTask describes a run. page is the URL of the leader's page if the client can open it, else "".
func (s *Server) newTask(id string, v api.RunView, page string) *task {
	t := &task{ResultType: "complete", TaskID: id, Status: "working", CreatedAt: v.CreatedAt, LastUpdatedAt: v.UpdatedAt, PollInterval: pollEvery}
	switch {
	case v.Status == lattice.Canceled:
		t.Status = "cancelled"
	case v.Status.Ended():
		t.Status = "completed"
		t.Result = s.newResult(newRunOutput(v), nil)
		t.Result.IsError = v.Status == lattice.Failed
	case needsPerson(v):
		t.Status, t.InputRequests = "input_required", s.newRequests(v, page)
		t.StatusMessage = "waits for a person"
	case v.Problem != nil:
		t.StatusMessage = cli.Clean(v.Problem.Error())
	case v.Stopped:
		t.StatusMessage = cli.Clean(v.Note)
	default:
		t.StatusMessage = cli.Clean(strings.TrimSpace(v.Node + " " + v.Doing))
	}
	return t
}

// newRequests returns a request to the client's user for each open wait. Without Options.Decide it only tells how to decide: the
// page opens, or the message names the command. An answer to such a request changes nothing.
func (s *Server) newRequests(v api.RunView, page string) sdk.InputRequestMap {
	all := sdk.InputRequestMap{}
	for _, w := range v.Waits {
		var message strings.Builder
		follow.DescribeWait(cli.Sanitize(&message), v, w)
		request := &sdk.ElicitParams{Mode: "form", Message: message.String(), RequestedSchema: form{Type: "object", Properties: map[string]field{}}}
		if schema, ok := newForm(w); ok && s.o.Decide {
			request.RequestedSchema = schema
		} else if page != "" {
			request.Mode, request.RequestedSchema, request.ElicitationID, request.URL = "url", nil, w.ID, page+"/runs/"+v.RunID
		}
		all[w.ID] = request
	}
	return all
}

// form is the schema of a form, whose fields are scalars.
type form struct {
	Type       string           `json:"type"`
	Properties map[string]field `json:"properties"`
	Required   []string         `json:"required,omitempty"`
}

type field struct {
	Type    string   `json:"type"`
	Enum    []string `json:"enum,omitempty"`
	Default string   `json:"default,omitempty"`
}

// newForm returns the form that decides a wait, unless the wait expects values that no field can have.
func newForm(w lattice.Wait) (form, bool) {
	if w.YesOrNo() {
		return form{"object", map[string]field{"decision": {Type: "string", Enum: []string{string(lattice.Approve), string(lattice.Reject)}}, "comments": {Type: "string"}}, []string{"decision"}}, true
	}
	f := form{"object", map[string]field{}, nil}
	for _, name := range cli.SortedKeys(w.Expected) {
		switch t := w.Expected[name]; t {
		case "string", "integer", "number", "boolean":
			f.Properties[name] = field{Type: t}
		default:
			return f, false
		}
		if !slices.Contains(w.Optional, name) {
			f.Required = append(f.Required, name)
		}
	}
	if answer, ok := f.Properties["answer"]; ok && answer.Type == "string" {
		answer.Enum, answer.Default = w.Choices, w.Default
		f.Properties["answer"] = answer
	}
	return f, len(f.Properties) > 0
}

// applyResponses records the decisions in a client's responses. Responses to requests that are not open are ignored, and so are
// all without Options.Decide.
func (s *Server) applyResponses(ctx context.Context, c *connect.Conn, v api.RunView, responses sdk.InputResponseMap) (api.RunView, error) {
	if !s.o.Decide {
		return v, nil
	}
	for _, w := range v.Waits {
		in, ok := readResponse(w, responses[w.ID])
		if !ok {
			continue
		}
		after, err := s.decide(ctx, c, v, in)
		if err != nil {
			return v, err
		}
		v = after
	}
	return v, nil
}

// readResponse returns the decision in a response, if the user made one.
func readResponse(w lattice.Wait, response sdk.InputResponse) (decideInput, bool) {
	said, ok := response.(*sdk.ElicitResult)
	if !ok || said.Action != "accept" {
		return decideInput{}, false
	}
	in := decideInput{Wait: w.ID, Decision: string(lattice.Answer), Inputs: said.Content}
	if w.YesOrNo() {
		in.Inputs = nil
		in.Decision, _ = said.Content["decision"].(string)
		in.Comments, _ = said.Content["comments"].(string)
	}
	return in, in.Decision != ""
}

// canAsk reports whether a client shows forms to its user.
func canAsk(session *sdk.ServerSession) bool { return skillmcp.CanElicit(session) }

// canOpen reports whether a client opens URLs for its user.
func canOpen(session *sdk.ServerSession) bool {
	p := session.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && p.Capabilities.Elicitation.URL != nil
}
