package spending

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Models asks the questions of one run within its budgets.
type Models struct {
	drive.Models
	Keeper *Keeper
	Run    string
}

// Ask reserves the most that a question can take, asks it, and settles. A question without a known answer stays reserved; if
// it is asked again, the first time counts as spent.
func (m Models) Ask(ctx context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	bound := m.Bound(q)
	most := amountOf(bound.ModelUsage, bound.Time)
	id := questionID(m.Run, q.Command, q.Again)
	if q.Again > 0 {
		if err := m.Keeper.Lose(ctx, questionID(m.Run, q.Command, q.Again-1), "the answer was lost"); err != nil {
			return lattice.ModelReply{}, err
		}
	}
	call := Call{Run: m.Run, ID: id, Name: "question to " + q.Class, Need: budget.Need{Most: most}}
	if !bound.Priced {
		call.Guess = []budget.Unit{budget.Money}
	}
	r, err := m.Keeper.Reserve(ctx, call)
	if err != nil {
		return lattice.ModelReply{}, err
	}
	reply, err := m.Models.Ask(ctx, q)
	if err != nil {
		m.Keeper.dropReservation(id)
		return reply, err
	}
	spent, reason := amountOf(reply.Usage, m.Keeper.now().Sub(r.Begun)), ""
	switch {
	case reply.Kind == expr.FailLimit && reply.Usage.Tokens() == 0: // it was not sent
		return reply, m.Keeper.Release(ctx, id)
	case reply.Kind == expr.FailTimeout && reply.Usage.Tokens() == 0:
		spent, reason = r.Amount, "no usage was reported"
	case !bound.Priced && r.Amount.MicroUSD > 0:
		spent.MicroUSD, reason = r.Amount.MicroUSD, "the price is not known"
	}
	return reply, m.Keeper.Settle(ctx, id, spent, reply.Model, reason)
}

func questionID(run, command string, again int) string {
	return fmt.Sprintf("%s/%s#%d", run, command, again)
}

func amountOf(u lattice.ModelUsage, took time.Duration) budget.Amount {
	return budget.Amount{MicroUSD: budget.MicroUSD(u.CostUSD), Tokens: int64(max(0, u.Tokens())), Millis: max(0, took.Milliseconds())}
}

// agentSkill is the skill whose calls take a part of the budgets.
const agentSkill = "agent.run"

// Caller makes calls, those of agents within the budgets of their run.
type Caller struct {
	driver.Caller
	Keeper *Keeper
}

// Call reserves the largest usage of a call of an agent, makes the call, and settles. A call that waits keeps its reservation: its
// result counts all of it.
func (c Caller) Call(ctx context.Context, call lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	if call.Skill != agentSkill {
		return c.Caller.Call(ctx, call, event)
	}
	id := reservationID(call.RunID, call.ID)
	r, err := c.Keeper.Reserve(ctx, needOf(call, id))
	if err != nil {
		return lattice.Outcome{}, err
	}
	if r.Fresh {
		call.Uncertain = false // it was refused instead of dispatched
	}
	out, err := c.Caller.Call(ctx, call, event)
	if err != nil || out.Kind == lattice.Suspended {
		c.Keeper.dropReservation(id)
		return out, err
	}
	if neverBegan(out) {
		return out, c.Keeper.Release(ctx, id)
	}
	spent, model, reason := spentBy(out, r.Amount, c.Keeper.now().Sub(r.Begun))
	return out, c.Keeper.Settle(ctx, id, spent, model, reason)
}

// reservationID returns the id of the reservation for a call of an agent.
func reservationID(run, call string) string { return run + "/" + call }

// needOf returns the reservation for a call of an agent: its limits if it has some, else estimates.
func needOf(call lattice.Call, id string) Call {
	var in struct {
		Agent    string  `json:"agent"`
		TimeoutS float64 `json:"timeout_s"`
		Limits   struct {
			WallS      float64 `json:"wall_s"`
			MaxCostUSD float64 `json:"max_cost_usd"`
			MaxTokens  int64   `json:"max_tokens"`
		} `json:"limits"`
	}
	_ = json.Unmarshal(call.Input, &in) // an input that is not valid is refused by the skill
	c := Call{Run: call.RunID, ID: id, Name: fmt.Sprintf("%s of %s", agentSkill, call.Node)}
	c.Need.Most = budget.Amount{MicroUSD: budget.MicroUSD(in.Limits.MaxCostUSD), Tokens: max(0, in.Limits.MaxTokens), Millis: toMilliseconds(in.Limits.WallS)}
	if c.Need.Most.Millis == 0 {
		c.Need.Most.Millis = toMilliseconds(in.TimeoutS)
	}
	for _, u := range budget.Units() {
		if c.Need.Most.Of(u) == 0 {
			c.Guess = append(c.Guess, u)
		}
	}
	return c
}

// toMilliseconds converts seconds; a value that no timeout has is 0.
func toMilliseconds(seconds float64) int64 {
	if !(seconds > 0 && seconds < 1e9) {
		return 0
	}
	return int64(seconds * 1000)
}

// agentUse is the usage that an agent reports.
type agentUse struct {
	Usage *struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"usage"`
	Cost struct {
		USD    float64 `json:"usd"`
		Source string  `json:"source"`
	} `json:"cost"`
	DurationMS int64 `json:"duration_ms"`
}

func (u agentUse) tokens() int64 {
	if u.Usage == nil {
		return 0
	}
	return budget.Amount{Tokens: max(0, u.Usage.Input)}.Plus(budget.Amount{Tokens: max(0, u.Usage.Output)}).Tokens
}

// subtractPart returns all without a part of it.
func subtractPart(all, part int64) int64 { return all - max(0, min(part, all)) }

// spentBy returns the amount that a call of an agent took, and its model. The report comes from a sprite, so values that no call has are
// ignored, and time is the time that passed here, unless the report has more.
func spentBy(out lattice.Outcome, held budget.Amount, passed time.Duration) (spent budget.Amount, model, reason string) {
	var report struct {
		agentUse
		Model     string   `json:"model"`
		Inherited agentUse `json:"inherited"` // counted by the call of the turn from which this one went on
	}
	err := json.Unmarshal(reportOf(out), &report)
	if out.Kind != lattice.Finished || err != nil || report.Usage == nil || report.Usage.Input < 0 || report.Usage.Output < 0 {
		return held, report.Model, "no usage was reported"
	}
	spent.Millis = max(0, passed.Milliseconds(), min(subtractPart(report.DurationMS, report.Inherited.DurationMS), held.Millis))
	spent.Tokens = subtractPart(report.tokens(), report.Inherited.tokens())
	if spent.MicroUSD = subtractPart(budget.MicroUSD(report.Cost.USD), budget.MicroUSD(report.Inherited.Cost.USD)); report.Cost.Source != "unknown" || held.MicroUSD == 0 && held.Tokens == 0 {
		return spent, report.Model, ""
	}
	spent.MicroUSD = held.MicroUSD
	if spent.Tokens == 0 {
		spent.Tokens = held.Tokens
	}
	return spent, report.Model, "the cost is not known"
}

// reportOf returns the report of an agent in the result of its call, which may have failed.
func reportOf(out lattice.Outcome) json.RawMessage {
	if out.Result.Error != nil {
		return out.Result.Error.Details
	}
	return out.Result.Data
}

// neverBegan reports whether a call ended before it started its agent.
func neverBegan(out lattice.Outcome) bool {
	switch out.Exit {
	case protocol.ExitBadInput, protocol.ExitNotFound, protocol.ExitDenied, protocol.ExitUnsupported:
		return out.Kind == lattice.Finished && len(reportOf(out)) == 0
	}
	return false
}
