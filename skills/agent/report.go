package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

// report is the data of the result, or the details of its error.
type report struct {
	Status       string `json:"status"`      // done, failed, limit, cancelled
	StopReason   string `json:"stop_reason"` // end, exit, signal, timeout, idle, max_turns, max_tokens, max_cost_usd, error, cancelled
	Agent        string `json:"agent"`
	AgentVersion string `json:"agent_version,omitempty"`
	Model        string `json:"model,omitempty"`
	SessionID    string `json:"session_id,omitempty"`
	Resumable    bool   `json:"resumable"`
	tally.SoFar
	Inherited         *tally.SoFar   `json:"inherited,omitempty"` // the part of SoFar that another call took, up to the turn from which this one goes on
	Retries           int            `json:"retries"`
	Exit              exit           `json:"exit"`
	FilesChanged      []string       `json:"files_changed"`
	FinalText         string         `json:"final_text"`
	StructuredOutput  any            `json:"structured_output,omitempty"`
	PermissionDenials []any          `json:"permission_denials"`
	Errors            []string       `json:"errors"`
	MCPServers        []tally.Server `json:"mcp_servers,omitempty"`
	TranscriptPath    string         `json:"transcript_path"`
	Truncated         bool           `json:"truncated"`
}

type exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal"`
}

// describe writes for people, who read it in the log of the run, the end of what the agent said and where all of it is.
func (r *report) describe(w io.Writer) {
	fmt.Fprintf(w, "agent.run: %s printed %d bytes, which are in %s of the sprite\n", r.Agent, r.Output, r.TranscriptPath)
	if text := strings.TrimSpace(r.FinalText); text != "" {
		fmt.Fprintln(w, text)
	}
}

// newReport returns the report without a status.
func (l *launch) newReport(o outcome) report {
	t := o.out.tally
	r := report{
		Agent: l.adapter.Name, AgentVersion: t.Version, Model: t.Model, SessionID: l.sessionAfter(o).ID, SoFar: l.sumUp(o), Retries: t.Retries,
		Exit: exit{Code: o.exit.Code}, FinalText: o.out.finalText(), PermissionDenials: append([]any{}, t.Denials...), Errors: append([]string{}, t.Errors...), MCPServers: t.Servers,
	}
	if l.inherited.Cost.Source != "" {
		r.Inherited = &l.inherited
	}
	r.Resumable = r.SessionID != "" && l.adapter.Resumes
	if o.exit.Signal != 0 {
		r.Exit.Signal = o.exit.Signal.String()
	}
	if o.noServer != "" {
		l.call.Warn("mcp_not_connected", fmt.Sprintf("the agent was without our skills as tools: its MCP server %s is %q", ownServer, cleanLine(o.noServer)))
	}
	return r
}

// sumUp returns the use of the call up to now.
func (l *launch) sumUp(o outcome) tally.SoFar {
	t, base := o.out.tally, l.usageBefore()
	u := t.UsageSince(base.Usage)
	now := tally.SoFar{Turns: t.Turns, ToolCalls: t.Calls, Usage: u, Cost: t.CostSince(base.CostUSD, u, l.in.Prices), Duration: time.Since(l.began).Milliseconds()}
	if l.prior.Cost.Source != "" {
		return l.prior.Plus(now)
	}
	return now
}

// decision turns the report of an agent into the result of the call.
type decision struct {
	call    *skill.Call
	adapter adapter.Adapter
	limits  tally.Limits
	schema  answer.Schema
	secrets *redact.Secrets
	report  report
	outcome outcome
}

func (l *launch) newDecision(r report, o outcome) *decision {
	return &decision{call: l.call, adapter: l.adapter, limits: l.in.Limits, schema: l.schema, secrets: l.secrets, report: r, outcome: o}
}

// decide returns the result. Our own reasons to stop the agent come first, then the end that it reported, then its exit code.
func (d *decision) decide() (json.RawMessage, error) {
	o := d.outcome
	ends := o.out.tally.Ends
	var last *tally.Ending
	if len(ends) > 0 {
		last = &ends[len(ends)-1]
	}
	var limit limitError
	switch {
	case errors.Is(o.cause, errWall):
		return d.failAtLimit("timeout", fault.Timeout("timeout", "%v of %g s", o.cause, d.limits.WallS).
			WithHint("raise timeout_s, or give it less to do"))
	case errors.Is(o.cause, errIdle) && d.adapter.CauseOf(o.stderr) == adapter.CauseRate: // it waits for the end of the limit by itself
		d.report.Status, d.report.StopReason = "failed", "error"
		return d.fail(d.newAgentError(o.stderr, codeFailed, "the agent is silent since it reached a usage limit"))
	case errors.Is(o.cause, errIdle):
		return d.failAtLimit("idle", fault.Timeout("timeout", "%v: %g s", o.cause, d.limits.IdleS).WithHint("raise idle_s, or look into %s for what it waits for", d.report.TranscriptPath))
	case errors.Is(o.cause, errDead):
		d.report.Status, d.report.StopReason = "failed", "error"
		return d.fail(d.applyCause(adapter.CauseUnavailable, fault.Failed(codeFailed, "%v: %d times in a row", o.cause, o.out.tally.FailedRequests)))
	case errors.Is(o.cause, errDeaf):
		d.report.Status, d.report.StopReason = "failed", "error"
		return d.fail(fault.Failed(codeFailed, "%v", o.cause).WithHint("what it printed is in %s", d.report.TranscriptPath))
	case errors.As(o.cause, &limit):
		return d.failAtLimit(string(limit), d.newLimitError(limit))
	case errors.Is(o.cause, errNoTools):
		d.report.Status, d.report.StopReason = "failed", "error"
		return d.fail(fault.Failed("mcp_not_connected", "%v: it is %q", o.cause, cleanLine(o.noServer)).
			WithHint("look into %s, or set mcp.spritekit to false", d.report.TranscriptPath))
	case o.cause != nil && !errors.Is(o.cause, errLingers):
		d.report.Status, d.report.StopReason = "cancelled", "cancelled"
		e := fault.Failed("cancelled", "the agent was cancelled")
		if e.Exit = protocol.ExitCancelled; errors.Is(o.cause, context.DeadlineExceeded) {
			e.Code, e.Exit = "timeout", protocol.ExitTimeout
		}
		return d.fail(e)
	case last != nil && last.Failed:
		return d.failAsReported(*last)
	case last != nil && d.adapter.Output == adapter.OutputACP: // an agent of the protocol lives on until it is told to end
	case o.exit.Code != 0 && !errors.Is(o.cause, errLingers):
		return d.failByExit()
	case last == nil && d.adapter.Output != "text":
		d.report.Status, d.report.StopReason = "failed", "exit"
		return d.fail(d.newAgentError(o.stderr, codeFailed, "the agent ended without saying how"))
	}
	if errors.Is(o.cause, errLingers) {
		d.call.Warn("agent_lingered", "the agent did not end by itself after its last word, and was stopped")
	}
	return d.succeed(last)
}

// failAtLimit fails because of one of our limits.
func (d *decision) failAtLimit(reason string, e *skill.Error) (json.RawMessage, error) {
	d.report.Status, d.report.StopReason = "limit", reason
	e.Retryable = false
	return d.fail(e)
}

// newLimitError returns the error of a limit that the agent exceeded, with its value and a hint how to raise it.
func (d *decision) newLimitError(name limitError) *skill.Error {
	var number float64
	switch name {
	case "max_turns":
		number = float64(d.limits.MaxTurns)
	case "max_tokens":
		number = float64(d.limits.MaxTokens)
	case "max_cost_usd":
		number = d.limits.MaxCostUSD
	}
	e := fault.Limit("agent_limit", "%v", name)
	if number > 0 {
		e = fault.Limit("agent_limit", "%v of %s", name, strconv.FormatFloat(number, 'f', -1, 64))
	}
	return e.WithHint("raise limits.%s; with session.mode resume it goes on where it was", string(name))
}

// failAsReported fails with the error that the agent reported at its end.
func (d *decision) failAsReported(last tally.Ending) (json.RawMessage, error) {
	if limit, ok := d.adapter.Limits[last.Reason]; ok {
		return d.failAtLimit(limit, d.newLimitError(limitError(limit)))
	}
	d.report.Status, d.report.StopReason = "failed", "error"
	what := cmp.Or(last.Message, last.Reason)
	e := d.newAgentError(what, codeFailed, "the agent failed: "+cleanLine(what))
	switch {
	case last.Reason == acp.ReasonNoSession:
		e = d.applyCause(adapter.CauseNoSession, e)
	case last.Status == 401 || last.Status == 403:
		e = d.applyCause(adapter.CauseAuth, e)
	case last.Status == 429:
		e = d.applyCause(adapter.CauseRate, e)
	case last.Status >= 500:
		e = d.applyCause(adapter.CauseUnavailable, e)
	}
	return d.fail(e)
}

// failByExit fails because of an exit code or signal without a reported error.
func (d *decision) failByExit() (json.RawMessage, error) {
	d.report.Status, d.report.StopReason = "failed", "exit"
	how := fmt.Sprintf("with code %d", d.report.Exit.Code)
	if d.report.Exit.Signal != "" {
		d.report.StopReason = "signal"
		how = "by signal: " + d.report.Exit.Signal
	}
	return d.fail(d.newAgentError(d.outcome.stderr, codeFailed, "the agent ended "+how))
}

// newAgentError returns an error for words of the agent. The causes of the adapter decide its code and hint.
func (d *decision) newAgentError(words, code, message string) *skill.Error {
	e := fault.Failed(code, "%s", message).WithHint("what it printed is in %s", d.report.TranscriptPath)
	return d.applyCause(d.adapter.CauseOf(words+"\n"+strings.Join(d.report.Errors, "\n")), e)
}

// applyCause sets the code and the hint of an error to those of a cause.
func (d *decision) applyCause(cause string, e *skill.Error) *skill.Error {
	switch cause {
	case adapter.CauseAuth:
		e.Code = "agent_auth"
		return e.WithHint("the model's key is missing or refused: pass it with --agent-env; %s takes %s", d.adapter.Name, strings.Join(d.adapter.Secrets, " or "))
	case adapter.CauseRate:
		e.Code, e.Retryable = codeLimited, true
		return e.WithHint("wait, then run it again; with session.mode resume it goes on where it was")
	case adapter.CauseUnavailable:
		e.Code, e.Retryable = "agent_model_unavailable", true
		return e.WithHint("the model's service failed; run it again")
	case adapter.CauseNoSession:
		e.Code, e.Exit = "not_found", protocol.ExitNotFound
		return e.WithHint("the agent does not know the session; start a new one")
	}
	return e
}

// succeed returns the result of an agent that ended well, unless its answer does not match the schema.
func (d *decision) succeed(last *tally.Ending) (json.RawMessage, error) {
	d.report.Status, d.report.StopReason = "done", "exit"
	var given any
	if last != nil {
		d.report.StopReason, given = "end", last.Structured
	}
	if d.schema.Wanted() {
		value, err := d.schema.Read(given, d.report.FinalText)
		if err != nil {
			d.report.Status, d.report.StopReason = "failed", "error"
			return d.fail(fault.Failed("structured_output_invalid", "%v", err).WithHint("final_text has what the agent said; ask it again, or loosen the schema"))
		}
		d.report.StructuredOutput = value
	}
	if limits := d.limits; limits.MaxCostUSD > 0 && d.report.Cost.Source == tally.Unknown {
		d.call.Warn("cost_unknown", fmt.Sprintf("%s does not report its cost, so that limits.max_cost_usd could not be kept; give prices", d.adapter.Name))
	} else if name := limits.FirstPassed(&tally.Tally{Total: &d.report.Usage, Paid: &d.report.Cost.USD}, tally.Base{}, nil, tally.SoFar{}); name != "" {
		d.call.Warn("limit_passed", fmt.Sprintf("the agent's last answer passed the limit %s; it was done by then", name))
	}
	return d.encodeReport()
}

// fail returns the error with the report as its details, both without secrets.
func (d *decision) fail(e *skill.Error) (json.RawMessage, error) {
	data, err := d.encodeReport()
	if err != nil {
		return nil, err
	}
	e.Message, e.Hint = d.secrets.Text(e.Message), d.secrets.Text(e.Hint)
	return nil, e.WithDetails(data)
}

// encodeReport encodes the report without secrets.
func (d *decision) encodeReport() (json.RawMessage, error) {
	raw, err := json.Marshal(d.report)
	if err != nil {
		return nil, fmt.Errorf("report of the agent: %w", err)
	}
	return d.secrets.Bytes(raw), nil
}

// Reasons for which an agent is stopped.
var (
	errWall    = errors.New("the agent used up its time")
	errIdle    = errors.New("the agent was silent for too long")
	errDead    = errors.New("the agent keeps asking a model that does not answer")
	errLingers = errors.New("the agent did not exit after its last event")
	errWaiting = errors.New("the agent waits for an answer")
	// errSlowTurns: the agent is started again, on a new layer of files (turn.go).
	errSlowTurns = errors.New("it takes long to keep the turns of the agent")
	errNoTools   = errors.New("the agent could not start our MCP server")
)

// limitError names a limit that the agent exceeded.
type limitError string

// outcome holds everything that is known after the agent has ended.
type outcome struct {
	exit     proc.Exit
	cause    error // why it was stopped, nil if it ended by itself
	out      *output
	stderr   string
	question *skill.Question
	noServer string // status of our MCP server if the agent is not connected to it
}
