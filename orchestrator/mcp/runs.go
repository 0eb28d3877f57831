package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/launch"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxWait bounds how long a tool waits for a run, in seconds.
const maxWait = 600

// runFlowTool starts a run. A client with tasks gets a task from it.
const runFlowTool = "flow_run"

type flowInput struct {
	Flow   string         `json:"flow" jsonschema:"the name of a built-in flow, or the path of a flow on the user's machine"`
	Input  map[string]any `json:"input,omitempty" jsonschema:"the inputs of the flow; flow_list describes those of the built-in flows"`
	Repo   string         `json:"repo,omitempty" jsonschema:"URL or absolute path of the repository that the run works on"`
	Sprite string         `json:"sprite,omitempty" jsonschema:"an existing sprite to run in; by default a new one"`
	Goal   string         `json:"goal,omitempty" jsonschema:"the goal of the run, for agents in it"`
	Key    string         `json:"key,omitempty" jsonschema:"start the run once: the same key again returns the run that was started with it"`
	WaitS  int            `json:"wait_s,omitempty" jsonschema:"seconds to wait for the run to end or to need a decision; by default 0, at most 600"`
}

type runInput struct {
	Run string `json:"run" jsonschema:"the id of the run"`
}

type showInput struct {
	Run   string `json:"run" jsonschema:"the id of the run"`
	WaitS int    `json:"wait_s,omitempty" jsonschema:"seconds to wait for the run to end or to need a decision; by default 0, at most 600"`
}

type listRunsInput struct {
	Open  bool `json:"open,omitempty" jsonschema:"list only runs that have not ended"`
	Limit int  `json:"limit,omitempty" jsonschema:"list at most this many runs, the newest first; by default 20"`
}

type logInput struct {
	Run    string `json:"run" jsonschema:"the id of the run"`
	Node   string `json:"node,omitempty" jsonschema:"read only the output of this node"`
	Offset int64  `json:"offset,omitempty" jsonschema:"the position of the first byte"`
}

type decideInput struct {
	Run      string         `json:"run" jsonschema:"the id of the run"`
	Wait     string         `json:"wait" jsonschema:"the id of the wait, as run_show returns it"`
	Decision string         `json:"decision" jsonschema:"approve, reject or answer"`
	Inputs   map[string]any `json:"inputs,omitempty" jsonschema:"the inputs that the wait expects"`
	Comments string         `json:"comments,omitempty" jsonschema:"the reason; the waiting skill receives it"`
}

// flowOutput describes a built-in flow.
type flowOutput struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}

// runOutput is a run as lattice run --json prints it at its end, and what comes next.
type runOutput struct {
	api.RunLine
	Flow string `json:"flow,omitempty"`
	Next string `json:"next,omitempty"`
}

func (s *Server) addRunTools() {
	add(s, "flow_list", "List the built-in flows with their inputs.", hints{reads: true}, func(context.Context, *sdk.CallToolRequest, noInput) (any, error) { return listFlows() })
	add(s, runFlowTool, "Start a run of a flow. The run goes on when this client ends. Actions outside of its sprite, such as a push, wait for the user's decision.", hints{}, s.runFlow)
	add(s, "run_list", "List runs, the newest first.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, in listRunsInput) (any, error) {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) ([]runOutput, error) { return listRuns(ctx, c, in) })
	})
	add(s, "run_show", "Show a run: its status, outputs, error and open waits.", hints{reads: !s.o.Decide}, func(ctx context.Context, req *sdk.CallToolRequest, in showInput) (any, error) {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) (any, error) { return s.showRun(ctx, c, req, in) })
	})
	add(s, "run_log", "Read the output of a run's skills, at most 64 KiB at a time.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, in logInput) (any, error) {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) (readOutput, error) { return readLog(ctx, c, in) })
	})
	add(s, "run_cancel", "Cancel a run.", hints{destroys: true, repeats: true}, func(ctx context.Context, req *sdk.CallToolRequest, in runInput) (any, error) {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) (runOutput, error) {
			v, err := findRun(ctx, c, in.Run)
			if err == nil {
				v, err = c.Cancel(ctx, v.RunID, s.env.User)
			}
			return newRunOutput(v), err
		})
	})
	add(s, "waiting_list", "List the runs that wait for a decision of the user, and the actions that skills asked for.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, _ noInput) (any, error) {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) ([]api.RunWithActions, error) { return api.ListWaiting(ctx, c) })
	})
	if s.o.Decide {
		add(s, "run_decide", "Decide a wait of a run for the user. Ask the user first, and show them what the decision allows.", hints{destroys: true}, func(ctx context.Context, req *sdk.CallToolRequest, in decideInput) (any, error) {
			return withLeader(ctx, s, req.Session, func(c *connect.Conn) (runOutput, error) {
				v, err := findRun(ctx, c, in.Run)
				if err == nil {
					v, err = s.decide(ctx, c, v, in)
				}
				return newRunOutput(v), err
			})
		})
	}
}

func listFlows() ([]flowOutput, error) {
	var all []flowOutput
	for _, name := range manifests.Flows() {
		text, _ := manifests.Flow(name)
		flow := flowOutput{Name: name}
		if err := json.Unmarshal(text, &flow); err != nil {
			return nil, fmt.Errorf("read the flow %s: %w", name, err)
		}
		all = append(all, flow)
	}
	return all, nil
}

// runFlow starts a run. With a request state it goes on with the run that the same call started before.
func (s *Server) runFlow(ctx context.Context, req *sdk.CallToolRequest, in flowInput) (any, error) {
	if in.Flow == "-" {
		return nil, fault.BadInput("flow_unreadable", "standard input belongs to the protocol").WithHint("name a built-in flow, or the path of a file")
	}
	if _, builtIn := manifests.Flow(in.Flow); s.o.Over != nil && !builtIn { // a file would be read with the rights of this process
		return nil, fault.NotFound("flow_not_found", "there is no built-in flow %.64q", in.Flow).WithHint("flow_list")
	}
	if started := req.Params.RequestState; started != "" {
		return withLeader(ctx, s, req.Session, func(c *connect.Conn) (any, error) {
			return s.showRun(ctx, c, req, showInput{Run: started, WaitS: in.WaitS})
		})
	}
	if err := checkWait(in.WaitS); err != nil {
		return nil, err
	}
	input, err := json.Marshal(in.Input)
	if err != nil {
		return nil, fmt.Errorf("encode the input: %w", err)
	}
	if in.Input == nil {
		input = []byte("{}")
	}
	run, err := launch.Start(ctx, s.env, launch.Options{Options: s.options(req.Session), Repo: in.Repo, Sprite: in.Sprite, Goal: in.Goal, Key: in.Key}, in.Flow, input)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if _, err := run.KeepDriving(ctx, run.View, run.Values); err != nil {
		return nil, err
	}
	if declaresTasks(req.Params, req.Session) {
		in.WaitS = 0 // the client polls the task
	}
	return s.showRun(ctx, run.Conn, req, showInput{Run: run.View.RunID, WaitS: in.WaitS})
}

func checkWait(seconds int) error {
	if seconds < 0 || seconds > maxWait {
		return fault.BadInput("bad_input", "wait_s must be from 0 to %d", maxWait)
	}
	return nil
}

// findRun returns the run with an id. Unlike people, clients name no prefixes and no newest run.
func findRun(ctx context.Context, c *connect.Conn, id string) (api.RunView, error) {
	if id == "" {
		return api.RunView{}, fault.BadInput("bad_input", "the run has no name").WithHint("run_list")
	}
	v, err := c.Run(ctx, id)
	if err == nil && v.RunID != id {
		return api.RunView{}, fault.NotFound("run_not_found", "there is no run %s", id).WithHint("run_list")
	}
	return v, err
}

// showRun applies the decisions that a request carries, waits for the run, and returns it. It asks the user of a client that
// can ask once for each call.
func (s *Server) showRun(ctx context.Context, c *connect.Conn, req *sdk.CallToolRequest, in showInput) (any, error) {
	if err := checkWait(in.WaitS); err != nil {
		return nil, err
	}
	v, err := findRun(ctx, c, in.Run)
	if err == nil && len(req.Params.InputResponses) > 0 {
		v, err = s.applyResponses(ctx, c, v, req.Params.InputResponses)
	}
	if err == nil {
		v, err = awaitRun(ctx, c, v, time.Duration(in.WaitS)*time.Second)
	}
	if err != nil {
		return nil, err
	}
	asks := s.o.Decide && needsPerson(v) && in.WaitS > 0 && canAsk(req.Session) && len(req.Params.InputResponses) == 0
	if asks && !declaresTasks(req.Params, req.Session) {
		return &sdk.CallToolResult{InputRequests: s.newRequests(v, ""), RequestState: v.RunID}, nil
	}
	return newRunOutput(v), nil
}

// awaitRun waits until a run ends, needs a person or is not driven.
func awaitRun(ctx context.Context, c *connect.Conn, v api.RunView, wait time.Duration) (api.RunView, error) {
	if wait == 0 || v.Status.Ended() || needsPerson(v) {
		return v, nil
	}
	watching, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := c.WatchOutline(watching, v.RunID, v.LastSeq, func(api.WatchLine) error { return nil })
	if err != nil && watching.Err() == nil && !errors.Is(err, api.ErrGone) {
		return v, err
	}
	return c.Run(ctx, v.RunID)
}

// needsPerson reports whether a run does not go on until a person decides.
func needsPerson(v api.RunView) bool {
	return (v.Status == lattice.Waiting || v.Status.Blocked()) && len(v.Waits) > 0 && !lattice.AllTimed(v.Waits)
}

func newRunOutput(v api.RunView) runOutput {
	out := runOutput{RunLine: api.RunLine{RunID: v.RunID, Status: v.Status, Outputs: v.Outputs, Error: v.Error, Waits: v.Waits, Problem: v.Problem}, Flow: v.Flow}
	switch {
	case v.ContinuedIn != "":
		out.Next = "the run goes on in " + v.ContinuedIn
	case needsPerson(v):
		out.Next = "the user decides, in a terminal: lattice waiting"
	case !v.Status.Ended():
		out.Next = "run_show with wait_s waits for the run"
	}
	return out
}

func listRuns(ctx context.Context, c *connect.Conn, in listRunsInput) ([]runOutput, error) {
	if in.Limit < 0 {
		return nil, fault.BadInput("bad_input", "limit must not be negative")
	}
	if in.Limit == 0 {
		in.Limit = 20
	}
	runs, err := c.Runs(ctx, api.RunList{Open: in.Open, Limit: in.Limit})
	all := []runOutput{}
	for _, v := range runs {
		all = append(all, newRunOutput(v))
	}
	return all, err
}

// readLog reads a part of a run's log.
func readLog(ctx context.Context, c *connect.Conn, in logInput) (readOutput, error) {
	v, err := findRun(ctx, c, in.Run)
	if err != nil {
		return readOutput{}, err
	}
	return readParts(in.Offset, func(offset int64) (io.ReadCloser, error) { return c.Log(ctx, v.RunID, in.Node, offset) })
}

// decide records a decision of a wait for the person who allowed that with --decide.
func (s *Server) decide(ctx context.Context, c *connect.Conn, v api.RunView, in decideInput) (api.RunView, error) {
	decision := lattice.Decision(in.Decision)
	switch decision {
	case lattice.Approve, lattice.Reject, lattice.Answer:
	default:
		return v, fault.BadInput("bad_input", "decision must be approve, reject or answer")
	}
	if in.Wait == "" {
		return v, fault.BadInput("bad_input", "the decision names no wait").WithHint("run_show lists the waits of the run")
	}
	values, err := s.env.Values().Renew(v, nil)
	if err != nil {
		return v, err
	}
	r := api.DecideRequest{WaitID: in.Wait, Decision: decision, Comments: in.Comments, By: s.env.User, Detach: true, Values: values}
	if len(in.Inputs) > 0 {
		if r.Typed, err = json.Marshal(in.Inputs); err != nil {
			return v, fmt.Errorf("encode the inputs: %w", err)
		}
	}
	reply, err := c.Decide(ctx, v.RunID, r)
	if err != nil {
		return v, err
	}
	return c.KeepDriving(ctx, reply.Run, values)
}
