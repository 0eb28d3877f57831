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
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
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
	soFar
	Retries           int      `json:"retries"`
	Exit              exit     `json:"exit"`
	FilesChanged      []string `json:"files_changed"`
	FinalText         string   `json:"final_text"`
	StructuredOutput  any      `json:"structured_output,omitempty"`
	PermissionDenials []any    `json:"permission_denials"`
	Errors            []string `json:"errors"`
	MCPServers        []server `json:"mcp_servers,omitempty"`
	TranscriptPath    string   `json:"transcript_path"`
	Truncated         bool     `json:"truncated"`
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
		Agent: l.adapter.Name, AgentVersion: t.version, Model: t.model, SessionID: l.sessionAfter(o).ID, soFar: l.sumUp(o), Retries: t.retries,
		Exit: exit{Code: o.exit.Code}, FinalText: o.out.finalText(), PermissionDenials: append([]any{}, t.denials...), Errors: append([]string{}, t.errors...), MCPServers: t.servers,
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
func (l *launch) sumUp(o outcome) soFar {
	t, base := o.out.tally, l.usageBefore()
	u := t.usageSince(base.Usage)
	now := soFar{Turns: t.turns, ToolCalls: t.calls, Usage: u, Cost: t.costSince(base.CostUSD, u, l.in.Prices), Duration: time.Since(l.began).Milliseconds()}
	if l.prior.Cost.Source != "" {
		return l.prior.plus(now)
	}
	return now
}

// decideOutcome turns the report into the result of the call. Our own reasons to stop the agent come first, then the end that
// it reported, then its exit code.
func (l *launch) decideOutcome(r report, o outcome) (json.RawMessage, error) {
	ends := o.out.tally.ends
	var last *ending
	if len(ends) > 0 {
		last = &ends[len(ends)-1]
	}
	var limit limitError
	switch {
	case errors.Is(o.cause, errWall):
		return l.failAtLimit(r, "timeout", fault.Timeout("timeout", "%v of %g s", o.cause, l.in.Limits.WallS).
			WithHint("raise timeout_s, or give it less to do"))
	case errors.Is(o.cause, errIdle):
		return l.failAtLimit(r, "idle", fault.Timeout("timeout", "%v: %g s", o.cause, l.in.Limits.IdleS).WithHint("raise idle_s, or look into %s for what it waits for", r.TranscriptPath))
	case errors.Is(o.cause, errDead):
		r.Status, r.StopReason = "failed", "error"
		return l.failWith(r, l.applyCause(adapter.CauseUnavailable, fault.Failed(codeFailed, "%v: %d times in a row", o.cause, o.out.tally.failedRequests)))
	case errors.Is(o.cause, errDeaf):
		r.Status, r.StopReason = "failed", "error"
		return l.failWith(r, fault.Failed(codeFailed, "%v", o.cause).WithHint("what it printed is in %s", r.TranscriptPath))
	case errors.As(o.cause, &limit):
		return l.failAtLimit(r, string(limit), l.newLimitError(limit))
	case errors.Is(o.cause, errNoTools):
		r.Status, r.StopReason = "failed", "error"
		return l.failWith(r, fault.Failed("mcp_not_connected", "%v: it is %q", o.cause, cleanLine(o.noServer)).
			WithHint("look into %s, or set mcp.spritekit to false", r.TranscriptPath))
	case o.cause != nil && !errors.Is(o.cause, errLingers):
		r.Status, r.StopReason = "cancelled", "cancelled"
		e := fault.Failed("cancelled", "the agent was cancelled")
		if e.Exit = protocol.ExitCancelled; errors.Is(o.cause, context.DeadlineExceeded) {
			e.Code, e.Exit = "timeout", protocol.ExitTimeout
		}
		return l.failWith(r, e)
	case last != nil && last.failed:
		return l.failAsReported(r, *last)
	case last != nil && l.adapter.Output == adapter.OutputACP: // an agent of the protocol lives on until it is told to end
	case o.exit.Code != 0 && !errors.Is(o.cause, errLingers):
		return l.failByExit(r, o)
	case last == nil && l.adapter.Output != "text":
		r.Status, r.StopReason = "failed", "exit"
		return l.failWith(r, l.newAgentError(r, o.stderr, codeFailed, "the agent ended without saying how"))
	}
	if errors.Is(o.cause, errLingers) {
		l.call.Warn("agent_lingered", "the agent did not end by itself after its last word, and was stopped")
	}
	return l.succeed(r, last)
}

// failAtLimit fails because of one of our limits.
func (l *launch) failAtLimit(r report, reason string, e *skill.Error) (json.RawMessage, error) {
	r.Status, r.StopReason = "limit", reason
	e.Retryable = false
	return l.failWith(r, e)
}

// newLimitError returns the error of a limit that the agent exceeded, with its value and a hint how to raise it.
func (l *launch) newLimitError(name limitError) *skill.Error {
	var number float64
	switch name {
	case "max_turns":
		number = float64(l.in.Limits.MaxTurns)
	case "max_tokens":
		number = float64(l.in.Limits.MaxTokens)
	case "max_cost_usd":
		number = l.in.Limits.MaxCostUSD
	}
	e := fault.Limit("agent_limit", "%v", name)
	if number > 0 {
		e = fault.Limit("agent_limit", "%v of %s", name, strconv.FormatFloat(number, 'f', -1, 64))
	}
	return e.WithHint("raise limits.%s; with session.mode resume it goes on where it was", string(name))
}

// failAsReported fails with the error that the agent reported at its end.
func (l *launch) failAsReported(r report, last ending) (json.RawMessage, error) {
	if limit, ok := l.adapter.Limits[last.reason]; ok {
		return l.failAtLimit(r, limit, l.newLimitError(limitError(limit)))
	}
	r.Status, r.StopReason = "failed", "error"
	what := cmp.Or(last.message, last.reason)
	e := l.newAgentError(r, what, codeFailed, "the agent failed: "+cleanLine(what))
	switch {
	case last.reason == acp.ReasonNoSession:
		e = l.applyCause(adapter.CauseNoSession, e)
	case last.status == 401 || last.status == 403:
		e = l.applyCause(adapter.CauseAuth, e)
	case last.status == 429:
		e = l.applyCause(adapter.CauseRate, e)
	case last.status >= 500:
		e = l.applyCause(adapter.CauseUnavailable, e)
	}
	return l.failWith(r, e)
}

// failByExit fails because of an exit code or signal without a reported error.
func (l *launch) failByExit(r report, o outcome) (json.RawMessage, error) {
	r.Status, r.StopReason = "failed", "exit"
	how := fmt.Sprintf("with code %d", r.Exit.Code)
	if r.Exit.Signal != "" {
		r.StopReason = "signal"
		how = "by signal: " + r.Exit.Signal
	}
	return l.failWith(r, l.newAgentError(r, o.stderr, codeFailed, "the agent ended "+how))
}

// newAgentError returns an error for words of the agent. The causes of the adapter decide its code and hint.
func (l *launch) newAgentError(r report, words, code, message string) *skill.Error {
	e := fault.Failed(code, "%s", message).WithHint("what it printed is in %s", r.TranscriptPath)
	return l.applyCause(l.adapter.CauseOf(words+"\n"+strings.Join(r.Errors, "\n")), e)
}

// applyCause sets the code and the hint of an error to those of a cause.
func (l *launch) applyCause(cause string, e *skill.Error) *skill.Error {
	switch cause {
	case adapter.CauseAuth:
		e.Code = "agent_auth"
		return e.WithHint("the model's key is missing or refused: pass it with --agent-env; %s takes %s", l.adapter.Name, strings.Join(l.adapter.Secrets, " or "))
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
func (l *launch) succeed(r report, last *ending) (json.RawMessage, error) {
	r.Status, r.StopReason = "done", "exit"
	var given any
	if last != nil {
		r.StopReason, given = "end", last.structured
	}
	if l.wantsSchema() {
		value, err := l.readStructured(given, r.FinalText)
		if err != nil {
			r.Status, r.StopReason = "failed", "error"
			return l.failWith(r, fault.Failed("structured_output_invalid", "%v", err).WithHint("final_text has what the agent said; ask it again, or loosen the schema"))
		}
		r.StructuredOutput = value
	}
	if limits := l.in.Limits; limits.MaxCostUSD > 0 && r.Cost.Source == costUnknown {
		l.call.Warn("cost_unknown", fmt.Sprintf("%s does not report its cost, so that limits.max_cost_usd could not be kept; give prices", l.adapter.Name))
	} else if name := limits.firstPassed(&tally{turns: 0, total: &r.Usage, paid: &r.Cost.USD}, baseline{}, nil, soFar{}); name != "" {
		l.call.Warn("limit_passed", fmt.Sprintf("the agent's last answer passed the limit %s; it was done by then", name))
	}
	return l.encodeReport(r)
}

// failWith returns the error with the report as its details, both without secrets.
func (l *launch) failWith(r report, e *skill.Error) (json.RawMessage, error) {
	data, err := l.encodeReport(r)
	if err != nil {
		return nil, err
	}
	e.Message, e.Hint = l.secrets.Text(e.Message), l.secrets.Text(e.Hint)
	return nil, e.WithDetails(data)
}

// encodeReport encodes the report without secrets.
func (l *launch) encodeReport(r report) (json.RawMessage, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("report of the agent: %w", err)
	}
	return l.secrets.Bytes(raw), nil
}
