package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// report is the result's data, or the details of its error.
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

// report says what is known but for the verdict.
func (l *launch) report(o outcome) report {
	t := o.out.tally
	base := l.base()
	u := t.used(base.Usage)
	now := soFar{
		Turns: t.turns, ToolCalls: t.calls, Usage: u, Cost: t.costs(base.CostUSD, u, l.in.Prices), Duration: o.exit.Duration.Milliseconds(),
	}
	r := report{
		Agent: l.adapter.Name, AgentVersion: t.version, Model: t.model, SessionID: l.left(o).ID, soFar: now, Retries: t.retries,
		Exit: exit{Code: o.exit.Code}, FinalText: o.out.finalText(), PermissionDenials: append([]any{}, t.denials...), Errors: append([]string{}, t.errors...), MCPServers: t.servers,
	}
	if l.prior.Cost.Source != "" {
		r.soFar = l.prior.plus(now)
	}
	r.Resumable = r.SessionID != "" && l.adapter.Resumes
	if o.exit.Signal != 0 {
		r.Exit.Signal = o.exit.Signal.String()
	}
	if o.lonely != "" {
		l.call.Warn("mcp_not_connected", fmt.Sprintf("the agent was without our skills as tools: its MCP server %s is %q", ownServer, sanitise(o.lonely)))
	}
	return r
}

// verdict turns the report into the outcome of the call: our own reasons to stop the agent first, then what it said of
// its end, then its exit code.
func (l *launch) verdict(r report, o outcome) (json.RawMessage, error) {
	ends := o.out.tally.ends
	var last *ending
	if len(ends) > 0 {
		last = &ends[len(ends)-1]
	}
	var limit limitError
	switch {
	case errors.Is(o.cause, errWall):
		return l.stopped(r, "timeout", fault.Timeout("timeout", "%v of %g s", o.cause, l.in.Limits.WallS).
			WithHint("raise timeout_s, or give it less to do"))
	case errors.Is(o.cause, errIdle):
		return l.stopped(r, "idle", fault.Timeout("timeout", "%v: %g s", o.cause, l.in.Limits.IdleS).WithHint("raise idle_s, or look into %s for what it waits for", r.TranscriptPath))
	case errors.Is(o.cause, errDead):
		r.Status, r.StopReason = "failed", "error"
		return l.fail(r, l.because(causeUnavailable, fault.Failed("agent_failed", "%v: %d times in a row", o.cause, o.out.tally.vain)))
	case errors.As(o.cause, &limit):
		return l.stopped(r, string(limit), l.limit(limit))
	case errors.Is(o.cause, errNoTools):
		r.Status, r.StopReason = "failed", "error"
		return l.fail(r, fault.Failed("mcp_not_connected", "%v: it is %q", o.cause, sanitise(o.lonely)).
			WithHint("look into %s, or set mcp.spritekit to false", r.TranscriptPath))
	case o.cause != nil && !errors.Is(o.cause, errLingers):
		r.Status, r.StopReason = "cancelled", "cancelled"
		e := fault.Failed("cancelled", "the agent was cancelled")
		if e.Exit = protocol.ExitCancelled; errors.Is(o.cause, context.DeadlineExceeded) {
			e.Code, e.Exit = "timeout", protocol.ExitTimeout
		}
		return l.fail(r, e)
	case last != nil && last.failed:
		return l.failed(r, *last)
	case o.exit.Code != 0 && !errors.Is(o.cause, errLingers):
		return l.crashed(r, o)
	case last == nil && l.adapter.Output != "text":
		r.Status, r.StopReason = "failed", "exit"
		return l.fail(r, l.explain(r, o.stderr, "agent_failed", "the agent ended without saying how"))
	}
	if errors.Is(o.cause, errLingers) {
		l.call.Warn("agent_lingered", "the agent did not end by itself after its last word, and was stopped")
	}
	return l.done(r, last)
}

// stopped is the outcome of a limit of ours.
func (l *launch) stopped(r report, reason string, e *skill.Error) (json.RawMessage, error) {
	r.Status, r.StopReason = "limit", reason
	e.Retryable = false
	return l.fail(r, e)
}

// limit is the error of a limit that the agent passed: its number, and where to raise it.
func (l *launch) limit(name limitError) *skill.Error {
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

// failed is the outcome of an agent that said so itself.
func (l *launch) failed(r report, last ending) (json.RawMessage, error) {
	if limit, ok := l.adapter.Limits[last.reason]; ok {
		return l.stopped(r, limit, l.limit(limitError(limit)))
	}
	r.Status, r.StopReason = "failed", "error"
	what := last.message
	if what == "" {
		what = last.reason
	}
	e := l.explain(r, what, "agent_failed", "the agent failed: "+sanitise(what))
	switch {
	case last.status == 401 || last.status == 403:
		e = l.because(causeAuth, e)
	case last.status == 429:
		e = l.because(causeRate, e)
	case last.status >= 500:
		e = l.because(causeUnavailable, e)
	}
	return l.fail(r, e)
}

// crashed is the outcome of an exit code that nothing explains.
func (l *launch) crashed(r report, o outcome) (json.RawMessage, error) {
	r.Status, r.StopReason = "failed", "exit"
	how := fmt.Sprintf("with code %d", r.Exit.Code)
	if r.Exit.Signal != "" {
		r.StopReason = "signal"
		how = "by signal: " + r.Exit.Signal
	}
	return l.fail(r, l.explain(r, o.stderr, "agent_failed", "the agent ended "+how))
}

// explain finds out what the agent's words mean.
func (l *launch) explain(r report, words, code, message string) *skill.Error {
	e := fault.Failed(code, "%s", message).WithHint("what it printed is in %s", r.TranscriptPath)
	words += "\n" + strings.Join(r.Errors, "\n")
	for _, c := range l.adapter.Causes {
		for _, text := range c.Contains {
			if strings.Contains(words, text) {
				return l.because(c.Is, e)
			}
		}
	}
	return e
}

func (l *launch) because(cause string, e *skill.Error) *skill.Error {
	switch cause {
	case causeAuth:
		e.Code = "agent_auth"
		return e.WithHint("the model's key is missing or refused: pass it with --agent-env; %s takes %s", l.adapter.Name, strings.Join(l.adapter.Secrets, " or "))
	case causeRate:
		e.Code, e.Retryable = "agent_rate_limited", true
		return e.WithHint("wait, then run it again; with session.mode resume it goes on where it was")
	case causeUnavailable:
		e.Code, e.Retryable = "agent_model_unavailable", true
		return e.WithHint("the model's service failed; run it again")
	case causeNoSession:
		e.Code, e.Exit = "not_found", protocol.ExitNotFound
		return e.WithHint("the agent does not know the session; start a new one")
	}
	return e
}

// done is the outcome of an agent that did its work.
func (l *launch) done(r report, last *ending) (json.RawMessage, error) {
	r.Status, r.StopReason = "done", "exit"
	var given any
	if last != nil {
		r.StopReason, given = "end", last.structured
	}
	if l.wantsSchema() {
		value, err := l.structured(given, r.FinalText)
		if err != nil {
			r.Status, r.StopReason = "failed", "error"
			return l.fail(r, fault.Failed("structured_output_invalid", "%v", err).WithHint("final_text has what the agent said; ask it again, or loosen the schema"))
		}
		r.StructuredOutput = value
	}
	if limits := l.in.Limits; limits.MaxCostUSD > 0 && r.Cost.Source == costUnknown {
		l.call.Warn("cost_unknown", fmt.Sprintf("%s does not report its cost, so that limits.max_cost_usd could not be kept; give prices", l.adapter.Name))
	} else if name := limits.passed(&tally{turns: 0, total: &r.Usage, paid: &r.Cost.USD}, baseline{}, nil); name != "" {
		l.call.Warn("limit_passed", fmt.Sprintf("the agent's last answer passed the limit %s; it was done by then", name))
	}
	return l.safe(r)
}

func (l *launch) fail(r report, e *skill.Error) (json.RawMessage, error) {
	data, err := l.safe(r)
	if err != nil {
		return nil, err
	}
	e.Message, e.Hint = l.secrets.Text(e.Message), l.secrets.Text(e.Hint)
	return nil, e.WithDetails(data)
}

// safe is the report without secrets.
func (l *launch) safe(r report) (json.RawMessage, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("report of the agent: %w", err)
	}
	return l.secrets.Bytes(raw), nil
}
