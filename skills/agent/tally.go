package agent

import (
	"fmt"
	"maps"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

// usage counts tokens.
type usage struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
}

func (u usage) plus(v usage) usage {
	return usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// since returns the usage after base. If it is less than base, it was not counted from there.
func (u usage) since(base usage) usage {
	d := usage{u.Input - base.Input, u.Cached - base.Cached, u.Output - base.Output, u.Reasoning - base.Reasoning}
	if d.Input < 0 || d.Cached < 0 || d.Output < 0 || d.Reasoning < 0 {
		return u
	}
	return d
}

func (u usage) total() int64 { return u.Input + u.Output }

// prices are US dollars for a million tokens; cached tokens cost as much as input if they have no price.
type prices struct {
	Input  float64  `json:"input"`
	Cached *float64 `json:"cached"`
	Output float64  `json:"output"`
}

func (p prices) costOf(u usage) float64 {
	cached := p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*cached + float64(u.Output)*p.Output) / 1e6
}

// cost is an amount of US dollars. Source is reported (by the agent), derived (from tokens and the input prices), or unknown.
type cost struct {
	USD    float64 `json:"usd"`
	Source string  `json:"source"`
}

const (
	costReported = "reported"
	costDerived  = "derived"
	costUnknown  = "unknown"
)

// toolCalls counts uses of tools.
type toolCalls struct {
	Total  int            `json:"total"`
	Failed int            `json:"failed"`
	ByName map[string]int `json:"by_name"`
}

// server is an MCP server as the agent sees it.
type server struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// ending is the end that an agent reported.
type ending struct {
	failed     bool
	reason     string // in the agent's own words
	status     int    // of HTTP, 0 if it was not reported
	message    string
	structured any
}

const (
	maxNames  = 200 // of tools that are counted by name
	maxErrors = 20
	maxSeen   = 100_000 // answers that are counted once each
)

// tally adds up the events of an agent. It is pure: the same events give the same numbers.
type tally struct {
	session, model, version string
	servers                 []server
	turns                   int
	calls                   toolCalls
	retries                 int
	failedRequests          int    // since the last answer of the model
	final                   string // the last text
	delta                   bool   // the next text may continue it
	errors                  []string
	denials                 []any
	resetsAt                float64 // seconds since 1970 at which a usage limit ends, 0 if the agent reported none
	ends                    []ending

	turnIDs map[string]bool
	answers map[string]usage // by id of the answer, which is reported several times
	live    usage            // the sum of single answers
	total   *usage           // as reported at the end
	spent   float64          // sum of reported costs
	paid    *float64
}

func newTally() *tally {
	return &tally{calls: toolCalls{ByName: map[string]int{}}, turnIDs: map[string]bool{}, answers: map[string]usage{}}
}

// addEvent counts an event.
func (t *tally) addEvent(s adapter.Event) {
	if s.Kind != adapter.KindText {
		t.delta = t.delta && s.Kind == adapter.KindUsage
	}
	switch s.Kind {
	case adapter.KindText, adapter.KindToolCall, adapter.KindTurn, adapter.KindUsage:
		t.failedRequests = 0
	}
	switch s.Kind {
	case adapter.KindStart:
		if id := s.Text("session"); id != "" {
			t.session = id
		}
		t.model, t.version = s.Text("model"), s.Text("version")
		for _, item := range s.List("mcp") {
			one := adapter.Event{Fields: map[string]any{}}
			one.Fields, _ = item.(map[string]any)
			t.servers = append(t.servers, server{one.Text("name"), one.Text("status")})
		}
	case adapter.KindText:
		t.addText(s)
	case adapter.KindToolCall:
		t.calls.Total++
		if name := s.Text("name"); len(t.calls.ByName) < maxNames || t.calls.ByName[name] > 0 {
			t.calls.ByName[name]++
		}
	case adapter.KindToolResult:
		if s.Truth("failed") {
			t.calls.Failed++
		}
	case adapter.KindRetry:
		t.retries++
		t.failedRequests++
	case adapter.KindTurn:
		if id := s.Text("id"); id == "" {
			t.turns++
		} else if !t.turnIDs[id] && len(t.turnIDs) < maxSeen {
			t.turnIDs[id] = true
			t.turns++
		}
	case adapter.KindUsage:
		t.addUsage(s)
	case adapter.KindLimit:
		t.resetsAt = s.Number("resets_at")
	case adapter.KindError:
		t.addError(s.Text("message"))
	case adapter.KindEnd:
		t.addEnd(s)
	}
}

func (t *tally) addText(s adapter.Event) {
	text, delta := s.Text("text"), s.Truth("delta")
	if delta && t.delta {
		text = t.final + text
	}
	t.final, t.delta = text[max(0, len(text)-maxFinalText):], delta
}

func (t *tally) addUsage(s adapter.Event) {
	u := usageOf(s)
	if id := s.Text("id"); id != "" && len(t.answers) < maxSeen {
		t.live = t.live.plus(u).less(t.answers[id])
		t.answers[id] = u
	} else {
		t.live = t.live.plus(u)
	}
	if _, ok := s.Fields["cost"]; ok {
		t.spent += s.Number("cost")
		t.paid = &t.spent
	}
}

func (u usage) less(v usage) usage {
	return usage{u.Input - v.Input, u.Cached - v.Cached, u.Output - v.Output, u.Reasoning - v.Reasoning}
}

func usageOf(s adapter.Event) usage {
	u := usage{int64(s.Number("input")), int64(s.Number("cached")), int64(s.Number("output")), int64(s.Number("reasoning"))}
	return usage{max(u.Input, 0), max(u.Cached, 0), max(u.Output, 0), max(u.Reasoning, 0)}
}

func (t *tally) addError(message string) {
	if message != "" && len(t.errors) < maxErrors {
		t.errors = append(t.errors, message[:min(len(message), 2000)])
	}
}

// addDenial counts a request for permission that was denied.
func (t *tally) addDenial(tool, title string) {
	if len(t.denials) < maxErrors {
		t.denials = append(t.denials, map[string]any{"tool": tool, "title": title})
	}
}

func (t *tally) addEnd(s adapter.Event) {
	if id := s.Text("session"); id != "" {
		t.session = id
	}
	e := ending{failed: s.Truth("failed"), reason: s.Text("reason"), status: int(s.Number("status")), message: s.Text("message"), structured: s.Fields["structured"]}
	if text := s.Text("text"); text != "" && !e.failed {
		t.final = text[max(0, len(text)-maxFinalText):]
	}
	if e.failed {
		if e.message == "" {
			e.message = s.Text("text")
		}
		t.addError(e.message)
	}
	for _, item := range s.List("errors") {
		t.addError(adapter.Event{Fields: map[string]any{"e": item}}.Text("e"))
	}
	if denials := s.List("denials"); len(denials) > 0 {
		t.denials = denials[:min(len(denials), maxErrors)]
	}
	if n := int(s.Number("turns")); n > t.turns {
		t.turns = n
	}
	if n := int(s.Number("tools")); n > t.calls.Total {
		t.calls.Total = n
	}
	if _, ok := s.Fields["input"]; ok {
		u := usageOf(s)
		t.total = &u
	}
	if _, ok := s.Fields["cost"]; ok {
		paid := s.Number("cost")
		t.paid = &paid
	}
	t.ends = append(t.ends, e)
}

// usageSince returns the usage of this invocation so far. base is the usage of earlier ones if the agent includes them.
func (t *tally) usageSince(base usage) usage {
	if t.total != nil {
		return t.total.since(base)
	}
	return t.live
}

// costSince returns the cost of this invocation. base is the cost of earlier ones if the agent includes them.
func (t *tally) costSince(base float64, u usage, p *prices) cost {
	switch {
	case t.paid != nil && *t.paid >= base:
		return cost{*t.paid - base, costReported}
	case t.paid != nil:
		return cost{*t.paid, costReported}
	case p != nil:
		return cost{p.costOf(u), costDerived}
	}
	return cost{0, costUnknown}
}

// limits are enforced by us, in addition to limits of the agent. Zero means none.
type limits struct {
	WallS      float64 `json:"wall_s"`
	IdleS      float64 `json:"idle_s"`
	MaxTurns   int     `json:"max_turns"`
	MaxCostUSD float64 `json:"max_cost_usd"`
	MaxTokens  int64   `json:"max_tokens"`
}

// firstPassed returns the name of a limit that the tally and the earlier invocations of the call exceed, or "".
func (l limits) firstPassed(t *tally, base baseline, p *prices, prior soFar) string {
	u := t.usageSince(base.Usage)
	switch {
	case l.MaxTurns > 0 && prior.Turns+t.turns > l.MaxTurns:
		return "max_turns"
	case l.MaxTokens > 0 && prior.Usage.total()+u.total() > l.MaxTokens:
		return "max_tokens"
	case l.MaxCostUSD > 0 && prior.Cost.USD+t.costSince(base.CostUSD, u, p).USD > l.MaxCostUSD:
		return "max_cost_usd"
	}
	return ""
}

// after returns the limits of an invocation after those of prior. The agent's own limits cannot be 0.
func (l limits) after(prior soFar) limits {
	if l.MaxTurns > 0 {
		l.MaxTurns = max(1, l.MaxTurns-prior.Turns)
	}
	if l.MaxCostUSD > 0 {
		l.MaxCostUSD = max(0.0001, l.MaxCostUSD-prior.Cost.USD)
	}
	l.WallS = max(1, l.WallS-float64(prior.Duration)/1000)
	return l
}

// soFar is the sum of the earlier invocations of a call, before each of its pauses.
type soFar struct {
	Turns     int       `json:"turns"`
	ToolCalls toolCalls `json:"tool_calls"`
	Usage     usage     `json:"usage"`
	Cost      cost      `json:"cost"`
	Duration  int64     `json:"duration_ms"`
	Output    int64     `json:"output_bytes"`
}

func (a soFar) plus(b soFar) soFar {
	sum := soFar{
		Turns: a.Turns + b.Turns, Usage: a.Usage.plus(b.Usage), Duration: a.Duration + b.Duration, Output: a.Output + b.Output,
		ToolCalls: toolCalls{Total: a.ToolCalls.Total + b.ToolCalls.Total, Failed: a.ToolCalls.Failed + b.ToolCalls.Failed, ByName: map[string]int{}},
		Cost:      cost{a.Cost.USD + b.Cost.USD, b.Cost.Source},
	}
	if a.Cost.Source == costUnknown {
		sum.Cost.Source = costUnknown
	}
	maps.Copy(sum.ToolCalls.ByName, a.ToolCalls.ByName)
	for name, n := range b.ToolCalls.ByName {
		sum.ToolCalls.ByName[name] += n
	}
	return sum
}

func (s server) String() string { return fmt.Sprintf("%s (%s)", s.Name, s.Status) }
