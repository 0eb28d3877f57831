// Package tally adds up the events of a coding agent: turns, calls of tools, tokens, cost and its last words. It is pure.
package tally

import (
	"maps"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// Usage counts tokens.
type Usage struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
}

// Plus returns the sum.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// subtractBase returns the usage after base. If it is less than base, it was not counted from there.
func (u Usage) subtractBase(base Usage) Usage {
	d := u.subtractUsage(base)
	if d.Input < 0 || d.Cached < 0 || d.Output < 0 || d.Reasoning < 0 {
		return u
	}
	return d
}

// Sum returns the number of tokens; cached ones are part of the input, reasoning is part of the output.
func (u Usage) Sum() int64 { return u.Input + u.Output }

// Prices are US dollars for a million tokens; cached tokens cost as much as input if they have no price.
type Prices struct {
	Input  float64  `json:"input"`
	Cached *float64 `json:"cached"`
	Output float64  `json:"output"`
}

// MaxUSD bounds a price and a cost that an agent reports, so that sums of them are numbers.
const MaxUSD = 1_000_000_000

// Valid reports whether all prices are in their bounds.
func (p Prices) Valid() bool {
	valid := func(price float64) bool { return price >= 0 && price <= MaxUSD }
	return valid(p.Input) && valid(p.Output) && (p.Cached == nil || valid(*p.Cached))
}

func (p Prices) costOf(u Usage) float64 {
	cached := p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*cached + float64(u.Output)*p.Output) / 1e6
}

// Cost is an amount of US dollars. Source is reported (by the agent), derived (from tokens and the input prices), or unknown.
type Cost struct {
	USD    float64 `json:"usd"`
	Source string  `json:"source"`
}

// Sources of a cost.
const (
	Reported = "reported"
	Derived  = "derived"
	Unknown  = "unknown"
)

// ToolCalls counts uses of tools.
type ToolCalls struct {
	Total  int            `json:"total"`
	Failed int            `json:"failed"`
	ByName map[string]int `json:"by_name"`
}

// Server is an MCP server as the agent sees it.
type Server struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// Ending is the end that an agent reported.
type Ending struct {
	Failed     bool
	Reason     string // in the agent's own words
	Status     int    // of HTTP, 0 if it was not reported
	Message    string
	Structured any
}

// MaxText is the length to which the last text of an agent is cut, in bytes.
const MaxText = 8 << 10

const (
	maxNames  = 200 // of tools that are counted by name, and of servers
	maxName   = 500 // bytes
	maxErrors = 20
	maxSeen   = 100_000 // answers that are counted once each
)

// Tally adds up the events of an agent. It is pure: the same events give the same numbers.
type Tally struct {
	Session, Model, Version string
	Servers                 []Server
	Turns                   int
	Calls                   ToolCalls
	Retries                 int
	FailedRequests          int    // since the last answer of the model
	Final                   string // the last text, at most [MaxText] bytes of it
	Errors                  []string
	Denials                 []any
	ResetsAt                float64  // seconds since 1970 at which a usage limit ends, 0 if the agent reported none
	Ends                    []Ending // the last one, none before the agent reported an end
	Total                   *Usage   // of the session, as reported at the end
	Paid                    *float64 // US dollars, nil if the agent reports no cost

	delta   bool // the next text may continue the last one
	turnIDs map[string]bool
	answers map[string]Usage // by id of the answer, which is reported several times
	live    Usage            // the sum of single answers
	spent   float64          // the sum of reported costs
}

// New returns an empty tally.
func New() *Tally {
	return &Tally{Calls: ToolCalls{ByName: map[string]int{}}, turnIDs: map[string]bool{}, answers: map[string]Usage{}}
}

// Add counts an event.
func (t *Tally) Add(s adapter.Event) {
	if s.Kind != adapter.KindText {
		t.delta = t.delta && s.Kind == adapter.KindUsage
	}
	switch s.Kind {
	case adapter.KindText, adapter.KindToolCall, adapter.KindTurn, adapter.KindUsage:
		t.FailedRequests = 0
	}
	switch s.Kind {
	case adapter.KindStart:
		if id := s.Text("session"); id != "" {
			t.Session = id
		}
		t.Model, t.Version = s.Text("model"), s.Text("version")
		if list := s.List("mcp"); len(list) > 0 {
			t.Servers = nil // an agent that begins again lists them all again
			for _, item := range list[:min(len(list), maxNames)] {
				one := adapter.Event{Fields: map[string]any{}}
				one.Fields, _ = item.(map[string]any)
				t.Servers = append(t.Servers, Server{text.Cut(one.Text("name"), maxName), text.Cut(one.Text("status"), maxName)})
			}
		}
	case adapter.KindText:
		t.addText(s)
	case adapter.KindToolCall:
		t.Calls.Total++
		if name := text.Cut(s.Text("name"), maxName); len(t.Calls.ByName) < maxNames || t.Calls.ByName[name] > 0 {
			t.Calls.ByName[name]++
		}
	case adapter.KindToolResult:
		if s.Truth("failed") {
			t.Calls.Failed++
		}
	case adapter.KindRetry:
		t.Retries++
		t.FailedRequests++
	case adapter.KindTurn:
		if id := s.Text("id"); id == "" {
			t.Turns++
		} else if !t.turnIDs[id] && len(t.turnIDs) < maxSeen {
			t.turnIDs[id] = true
			t.Turns++
		}
	case adapter.KindUsage:
		t.addUsage(s)
	case adapter.KindLimit:
		t.ResetsAt = s.Number("resets_at")
	case adapter.KindError:
		t.addError(s.Text("message"))
	case adapter.KindEnd:
		t.addEnd(s)
	}
}

func (t *Tally) addText(s adapter.Event) {
	text, delta := s.Text("text"), s.Truth("delta")
	if delta && t.delta {
		text = t.Final + text
	}
	t.Final, t.delta = text[max(0, len(text)-MaxText):], delta
}

func (t *Tally) addUsage(s adapter.Event) {
	u := usageOf(s)
	if id := s.Text("id"); id != "" && len(t.answers) < maxSeen {
		t.live = t.live.Plus(u).subtractUsage(t.answers[id])
		t.answers[id] = u
	} else {
		t.live = t.live.Plus(u)
	}
	if _, ok := s.Fields["cost"]; ok {
		t.spent += costIn(s)
		t.Paid = &t.spent
	}
}

// costIn returns the cost that an event reports.
func costIn(s adapter.Event) float64 { return min(max(s.Number("cost"), 0), MaxUSD) }

func (u Usage) subtractUsage(v Usage) Usage {
	return Usage{u.Input - v.Input, u.Cached - v.Cached, u.Output - v.Output, u.Reasoning - v.Reasoning}
}

func usageOf(s adapter.Event) Usage {
	u := Usage{int64(s.Number("input")), int64(s.Number("cached")), int64(s.Number("output")), int64(s.Number("reasoning"))}
	return Usage{max(u.Input, 0), max(u.Cached, 0), max(u.Output, 0), max(u.Reasoning, 0)}
}

func (t *Tally) addError(message string) {
	if message != "" && len(t.Errors) < maxErrors {
		t.Errors = append(t.Errors, text.Cut(message, 2000))
	}
}

// AddDenial counts a request for permission that was denied.
func (t *Tally) AddDenial(tool, title string) {
	if len(t.Denials) < maxErrors {
		t.Denials = append(t.Denials, map[string]any{"tool": tool, "title": title})
	}
}

func (t *Tally) addEnd(s adapter.Event) {
	if id := s.Text("session"); id != "" {
		t.Session = id
	}
	e := Ending{Failed: s.Truth("failed"), Reason: s.Text("reason"), Status: int(s.Number("status")), Message: s.Text("message"), Structured: s.Fields["structured"]}
	if text := s.Text("text"); text != "" && !e.Failed {
		t.Final = text[max(0, len(text)-MaxText):]
	}
	if e.Failed {
		if e.Message == "" {
			e.Message = s.Text("text")
		}
		t.addError(e.Message)
	}
	for _, item := range s.List("errors") {
		t.addError(adapter.Event{Fields: map[string]any{"e": item}}.Text("e"))
	}
	if denials := s.List("denials"); len(denials) > 0 {
		t.Denials = denials[:min(len(denials), maxErrors)]
	}
	if n := int(s.Number("turns")); n > t.Turns {
		t.Turns = n
	}
	if n := int(s.Number("tools")); n > t.Calls.Total {
		t.Calls.Total = n
	}
	if _, ok := s.Fields["input"]; ok {
		u := usageOf(s)
		t.Total = &u
	}
	if _, ok := s.Fields["cost"]; ok {
		paid := costIn(s)
		t.Paid = &paid
	}
	t.Ends = []Ending{e} // the last one decides
}

// UsageSince returns the usage of this invocation so far. base is the usage of earlier ones if the agent includes them.
func (t *Tally) UsageSince(base Usage) Usage {
	if t.Total != nil {
		return t.Total.subtractBase(base)
	}
	return t.live
}

// CostSince returns the cost of this invocation. base is the cost of earlier ones if the agent includes them.
func (t *Tally) CostSince(base float64, u Usage, p *Prices) Cost {
	switch {
	case t.Paid != nil && *t.Paid >= base:
		return Cost{*t.Paid - base, Reported}
	case t.Paid != nil:
		return Cost{*t.Paid, Reported}
	case p != nil:
		return Cost{p.costOf(u), Derived}
	}
	return Cost{0, Unknown}
}

// Base is the usage of a session before a call, for agents that include it in their totals.
type Base struct {
	Usage   Usage   `json:"usage"`
	CostUSD float64 `json:"cost_usd"`
}

// Limits are enforced by us, in addition to limits of the agent. Zero means none.
type Limits struct {
	WallS      float64 `json:"wall_s"`
	IdleS      float64 `json:"idle_s"`
	MaxTurns   int     `json:"max_turns"`
	MaxCostUSD float64 `json:"max_cost_usd"`
	MaxTokens  int64   `json:"max_tokens"`
}

// FirstPassed returns the name of a limit that the tally and the earlier invocations of the call exceed, or "".
func (l Limits) FirstPassed(t *Tally, base Base, p *Prices, prior SoFar) string {
	u := t.UsageSince(base.Usage)
	switch {
	case l.MaxTurns > 0 && prior.Turns+t.Turns > l.MaxTurns:
		return "max_turns"
	case l.MaxTokens > 0 && prior.Usage.Sum()+u.Sum() > l.MaxTokens:
		return "max_tokens"
	case l.MaxCostUSD > 0 && prior.Cost.USD+t.CostSince(base.CostUSD, u, p).USD > l.MaxCostUSD:
		return "max_cost_usd"
	}
	return ""
}

// After returns the limits of an invocation after those of prior. The agent's own limits cannot be 0.
func (l Limits) After(prior SoFar) Limits {
	if l.MaxTurns > 0 {
		l.MaxTurns = max(1, l.MaxTurns-prior.Turns)
	}
	if l.MaxCostUSD > 0 {
		l.MaxCostUSD = max(0.0001, l.MaxCostUSD-prior.Cost.USD)
	}
	l.WallS = max(1, l.WallS-float64(prior.Duration)/1000)
	return l
}

// Spent returns what an agent took after it had taken inherited.
func (a SoFar) Spent(inherited SoFar) protocol.Spent {
	s := protocol.Spent{Tokens: a.Usage.Sum() - inherited.Usage.Sum(), Milliseconds: a.Duration - inherited.Duration}
	if a.Cost.Source != Unknown {
		s.CostUSD = a.Cost.USD - inherited.Cost.USD
	}
	return s
}

// SoFar is the sum of the earlier invocations of a call, before each of its pauses.
type SoFar struct {
	Turns     int       `json:"turns"`
	ToolCalls ToolCalls `json:"tool_calls"`
	Usage     Usage     `json:"usage"`
	Cost      Cost      `json:"cost"`
	Duration  int64     `json:"duration_ms"`
	Output    int64     `json:"output_bytes"`
}

// Plus returns the sum. Its cost is unknown if one of the two is.
func (a SoFar) Plus(b SoFar) SoFar {
	sum := SoFar{
		Turns: a.Turns + b.Turns, Usage: a.Usage.Plus(b.Usage), Duration: a.Duration + b.Duration, Output: a.Output + b.Output,
		ToolCalls: ToolCalls{Total: a.ToolCalls.Total + b.ToolCalls.Total, Failed: a.ToolCalls.Failed + b.ToolCalls.Failed, ByName: map[string]int{}},
		Cost:      Cost{a.Cost.USD + b.Cost.USD, b.Cost.Source},
	}
	if a.Cost.Source == Unknown {
		sum.Cost.Source = Unknown
	}
	maps.Copy(sum.ToolCalls.ByName, a.ToolCalls.ByName)
	for name, n := range b.ToolCalls.ByName {
		sum.ToolCalls.ByName[name] += n
	}
	return sum
}
