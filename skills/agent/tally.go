package agent

import (
	"fmt"
	"maps"
)

// usage is tokens.
type usage struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
}

func (u usage) plus(v usage) usage {
	return usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// since is what was used after base; what is less than base was not counted from there.
func (u usage) since(base usage) usage {
	d := usage{u.Input - base.Input, u.Cached - base.Cached, u.Output - base.Output, u.Reasoning - base.Reasoning}
	if d.Input < 0 || d.Cached < 0 || d.Output < 0 || d.Reasoning < 0 {
		return u
	}
	return d
}

func (u usage) total() int64 { return u.Input + u.Output }

// prices are US dollars for a million tokens; cached ones count as input where they have no price.
type prices struct {
	Input  float64  `json:"input"`
	Cached *float64 `json:"cached"`
	Output float64  `json:"output"`
}

func (p prices) of(u usage) float64 {
	cached := p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*cached + float64(u.Output)*p.Output) / 1e6
}

// cost is in US dollars. Source is reported (by the agent), derived (from tokens and the prices of the input), or unknown.
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

// ending is what an agent said at its end.
type ending struct {
	failed     bool
	reason     string // its own word
	status     int    // of HTTP, 0 when it did not say
	message    string
	structured any
}

const (
	maxNames  = 200 // of tools that are counted by name
	maxErrors = 20
	maxSeen   = 100_000 // answers that are told apart
)

// tally adds up what an agent says. It is pure: the same events give the same numbers.
type tally struct {
	session, model, version string
	servers                 []server
	turns                   int
	calls                   toolCalls
	retries                 int
	vain                    int    // of them since the model last answered
	final                   string // the last text
	delta                   bool   // and it may go on
	errors                  []string
	denials                 []any
	ends                    []ending

	turnIDs map[string]bool
	answers map[string]usage // by id of the answer: it is reported several times
	live    usage            // the sum of single answers
	total   *usage           // as the agent says at its end
	spent   float64          // the same for cost
	paid    *float64
}

func newTally() *tally {
	return &tally{calls: toolCalls{ByName: map[string]int{}}, turnIDs: map[string]bool{}, answers: map[string]usage{}}
}

// add takes one event into account.
func (t *tally) add(s said) {
	if s.kind != kindText {
		t.delta = t.delta && s.kind == kindUsage
	}
	switch s.kind {
	case kindText, kindToolCall, kindTurn, kindUsage:
		t.vain = 0
	}
	switch s.kind {
	case kindStart:
		if id := s.text("session"); id != "" {
			t.session = id
		}
		t.model, t.version = s.text("model"), s.text("version")
		for _, item := range s.list("mcp") {
			one := said{fields: map[string]any{}}
			one.fields, _ = item.(map[string]any)
			t.servers = append(t.servers, server{one.text("name"), one.text("status")})
		}
	case kindText:
		t.text(s)
	case kindToolCall:
		t.calls.Total++
		if name := s.text("name"); len(t.calls.ByName) < maxNames || t.calls.ByName[name] > 0 {
			t.calls.ByName[name]++
		}
	case kindToolResult:
		if s.truth("failed") {
			t.calls.Failed++
		}
	case kindRetry:
		t.retries++
		t.vain++
	case kindTurn:
		if id := s.text("id"); id == "" {
			t.turns++
		} else if !t.turnIDs[id] && len(t.turnIDs) < maxSeen {
			t.turnIDs[id] = true
			t.turns++
		}
	case kindUsage:
		t.use(s)
	case kindError:
		t.fault(s.text("message"))
	case kindEnd:
		t.end(s)
	}
}

func (t *tally) text(s said) {
	text, delta := s.text("text"), s.truth("delta")
	if delta && t.delta {
		text = t.final + text
	}
	t.final, t.delta = text[max(0, len(text)-maxFinalText):], delta
}

func (t *tally) use(s said) {
	u := usageOf(s)
	if id := s.text("id"); id != "" && len(t.answers) < maxSeen {
		t.live = t.live.plus(u).less(t.answers[id])
		t.answers[id] = u
	} else {
		t.live = t.live.plus(u)
	}
	if _, ok := s.fields["cost"]; ok {
		t.spent += s.number("cost")
		t.paid = &t.spent
	}
}

func (u usage) less(v usage) usage {
	return usage{u.Input - v.Input, u.Cached - v.Cached, u.Output - v.Output, u.Reasoning - v.Reasoning}
}

func usageOf(s said) usage {
	u := usage{int64(s.number("input")), int64(s.number("cached")), int64(s.number("output")), int64(s.number("reasoning"))}
	return usage{max(u.Input, 0), max(u.Cached, 0), max(u.Output, 0), max(u.Reasoning, 0)}
}

func (t *tally) fault(message string) {
	if message != "" && len(t.errors) < maxErrors {
		t.errors = append(t.errors, message[:min(len(message), 2000)])
	}
}

func (t *tally) end(s said) {
	if id := s.text("session"); id != "" {
		t.session = id
	}
	e := ending{failed: s.truth("failed"), reason: s.text("reason"), status: int(s.number("status")), message: s.text("message"), structured: s.fields["structured"]}
	if text := s.text("text"); text != "" && !e.failed {
		t.final = text[max(0, len(text)-maxFinalText):]
	}
	if e.failed {
		if e.message == "" {
			e.message = s.text("text")
		}
		t.fault(e.message)
	}
	for _, item := range s.list("errors") {
		t.fault(said{fields: map[string]any{"e": item}}.text("e"))
	}
	if denials := s.list("denials"); len(denials) > 0 {
		t.denials = denials[:min(len(denials), maxErrors)]
	}
	if n := int(s.number("turns")); n > t.turns {
		t.turns = n
	}
	if n := int(s.number("tools")); n > t.calls.Total {
		t.calls.Total = n
	}
	if _, ok := s.fields["input"]; ok {
		u := usageOf(s)
		t.total = &u
	}
	if _, ok := s.fields["cost"]; ok {
		paid := s.number("cost")
		t.paid = &paid
	}
	t.ends = append(t.ends, e)
}

// used is the usage of this invocation as far as known. base is what the session had used before, when the agent counts
// from there.
func (t *tally) used(base usage) usage {
	if t.total != nil {
		return t.total.since(base)
	}
	return t.live
}

// costs is the cost of this invocation.
func (t *tally) costs(base float64, u usage, p *prices) cost {
	switch {
	case t.paid != nil && *t.paid >= base:
		return cost{*t.paid - base, costReported}
	case t.paid != nil:
		return cost{*t.paid, costReported}
	case p != nil:
		return cost{p.of(u), costDerived}
	}
	return cost{0, costUnknown}
}

// limits are ours, kept whatever the agent's own are. Zero means none.
type limits struct {
	WallS      float64 `json:"wall_s"`
	IdleS      float64 `json:"idle_s"`
	MaxTurns   int     `json:"max_turns"`
	MaxCostUSD float64 `json:"max_cost_usd"`
	MaxTokens  int64   `json:"max_tokens"`
}

// passed names the limit that the tally is beyond, "" for none.
func (l limits) passed(t *tally, base baseline, p *prices) string {
	u := t.used(base.Usage)
	switch {
	case l.MaxTurns > 0 && t.turns > l.MaxTurns:
		return "max_turns"
	case l.MaxTokens > 0 && u.total() > l.MaxTokens:
		return "max_tokens"
	case l.MaxCostUSD > 0 && t.costs(base.CostUSD, u, p).USD > l.MaxCostUSD:
		return "max_cost_usd"
	}
	return ""
}

// soFar is what earlier invocations of the same call add up to: before a question was answered.
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
