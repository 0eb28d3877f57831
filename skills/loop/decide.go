package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/skill"
)

type decideInput struct {
	Memory  loop.Memory `json:"memory"`
	Limits  loop.Limits `json:"limits"`
	Crash   string      `json:"crash"`
	State   *loop.State `json:"state"`
	Tasks   []loop.Task `json:"tasks"`
	Resumed bool        `json:"resumed"`
	Green   bool        `json:"green"`
	Commit  string      `json:"commit"`
	// Report is the result of test.verify, which ran in a fork.
	Report  json.RawMessage `json:"report"`
	Red     string          `json:"red"`
	Cost    agentCost       `json:"cost"`
	AgentMS int64           `json:"agent_ms"`
}

// agentCost is the cost of agent.run.
type agentCost struct {
	USD    float64 `json:"usd"`
	Source string  `json:"source"`
}

// report is the part of the data of test.verify that decides.
type report struct {
	Tree       string `json:"tree"`
	Statement  string `json:"statement"`
	Commands   []ran  `json:"commands"`
	DurationMS int64  `json:"duration_ms"`
}

type ran struct {
	Argv     []string `json:"argv"`
	Status   string   `json:"status"`
	Failures []struct {
		ID      string `json:"id"`
		Message string `json:"message"`
	} `json:"failures"`
}

type decideData struct {
	Decision  loop.Decision `json:"decision"`
	Reason    string        `json:"reason"`
	Iteration int           `json:"iteration"`
	Limit     bool          `json:"limit"` // a person has to raise a limit
	Failure   string        `json:"failure"`
	Memory    loop.Memory   `json:"memory"`
}

// decideNext is loop.decide.
func decideNext(_ context.Context, c *skill.Call, in decideInput) (*decideData, error) {
	if err := in.Limits.Check(); err != nil {
		return nil, skill.BadInput("/limits", "%v", err)
	}
	var r report
	if len(in.Report) > 0 {
		if err := json.Unmarshal(in.Report, &r); err != nil {
			return nil, skill.BadInput("/report", "%v", err)
		}
	}
	o := loop.Observation{
		Crash: in.Crash, Tasks: in.Tasks, Resumed: in.Resumed, Green: in.Green, Commit: in.Commit, Tree: r.Tree, Statement: r.Statement,
		Failure: in.Red, CostUSD: in.Cost.USD, DurationMS: in.AgentMS + r.DurationMS,
	}
	if in.State != nil {
		o.State = *in.State
	} else {
		o.Crash = cmp.Or(in.Crash, "there is no state")
	}
	failure := in.Red
	if !in.Green {
		o.Failing, failure = describeFailures(r)
		failure = cmp.Or(failure, in.Red)
		o.Failure = failure
	}
	m := loop.Decide(in.Memory, o, in.Limits)
	last := m.Last()
	session := loop.Session{
		Iteration: m.Iterations, MaxIterations: in.Limits.Complete().MaxIterations, Incomplete: loop.Incomplete(in.Tasks), Status: "running", Last: last.Decision,
	}
	switch {
	case last.Decision == loop.DecideDone:
		session.Status = "completed"
	case last.Decision.Stops():
		session.Status = "stopped"
	}
	if err := writeJSON(c.Root, loop.HistoryFile, m.Recent); err != nil {
		return nil, err
	}
	if err := writeJSON(c.Root, loop.SessionFile, session); err != nil {
		return nil, err
	}
	return &decideData{Decision: last.Decision, Reason: last.Reason, Iteration: last.Iteration, Limit: last.Decision.ByLimit(), Failure: failure, Memory: m}, nil
}

// describeFailures returns the failed tests of a report, and a text about them.
func describeFailures(r report) (failing []string, text string) {
	var b strings.Builder
	for _, c := range r.Commands {
		if c.Status == "passed" {
			continue
		}
		command := strings.Join(c.Argv, " ")
		fmt.Fprintf(&b, "%s: %s\n", command, c.Status)
		if len(c.Failures) == 0 {
			failing = append(failing, command)
		}
		for _, f := range c.Failures {
			failing = append(failing, f.ID)
			fmt.Fprintf(&b, "%s: %s\n", f.ID, f.Message)
		}
	}
	return failing, strings.TrimSpace(b.String())
}
