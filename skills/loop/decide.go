package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

type decideInput struct {
	Memory loop.Memory `json:"memory"`
	Limits loop.Limits `json:"limits"`
	Crash  string      `json:"crash"`
	State  *loop.State `json:"state"`
	Tasks  []loop.Task `json:"tasks"`
	// Before are the tasks at the beginning of the iteration. They count if its work was undone.
	Before     []loop.Task `json:"before"`
	Undone     bool        `json:"undone"`
	Pull       *loop.Pull  `json:"pr"`
	Divergence string      `json:"divergence"`
	Resumed    bool        `json:"resumed"`
	Green      bool        `json:"green"`
	Commit     string      `json:"commit"`
	// Report is the result of test.verify, which ran in a fork.
	Report  json.RawMessage `json:"report"`
	Red     string          `json:"red"`
	Cost    agentCost       `json:"cost"`
	AgentMS int64           `json:"agent_ms"`
	// Tries and FailedTries are the agents that worked side by side, instead of Cost and AgentMS. An element may be null.
	Tries       []json.RawMessage `json:"tries"`
	FailedTries []json.RawMessage `json:"failed_tries"`
}

// try is the part of a result or a failure of one of several agents that counts.
type try struct {
	Cost agentCost `json:"cost"`
	MS   int64     `json:"ms"`
	Data struct {
		Details struct {
			Cost agentCost `json:"cost"`
			MS   int64     `json:"duration_ms"`
		} `json:"details"`
	} `json:"data"`
}

// sumTook returns the cost and the duration of all agents of an iteration.
func (in decideInput) sumTook() (usd float64, ms int64, err error) {
	usd, ms = in.Cost.USD, in.AgentMS
	for i, raw := range slices.Concat(in.Tries, in.FailedTries) {
		var t try
		if err := json.Unmarshal(raw, &t); err != nil {
			pointer := fmt.Sprintf("/tries/%d", i)
			if failed := i - len(in.Tries); failed >= 0 {
				pointer = fmt.Sprintf("/failed_tries/%d", failed)
			}
			return 0, 0, skill.BadInput(pointer, "%v", err)
		}
		usd, ms = usd+t.Cost.USD+t.Data.Details.Cost.USD, max(ms, t.MS, t.Data.Details.MS)
	}
	return usd, ms, nil
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
	// Seen are digests of the files as they are now. Those that differ later were edited by a person.
	Seen       map[string]string `json:"seen"`
	Tasks      []loop.Task       `json:"tasks"`
	Pull       *loop.Pull        `json:"pr,omitempty"`
	Divergence string            `json:"divergence"`
	Report     *loop.Pull        `json:"report,omitempty"` // of a loop that is done
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
	if in.Memory.Iterations == 0 {
		in.Memory.Finished = loop.Passing(in.Before)
	}
	if in.Undone || in.Crash != "" { // nothing that it says counts
		in.Tasks = loop.Undo(in.Tasks, in.Before)
	}
	usd, ms, err := in.sumTook()
	if err != nil {
		return nil, err
	}
	o := loop.Observation{
		Crash: in.Crash, Tasks: in.Tasks, Resumed: in.Resumed, Undone: in.Undone, Green: in.Green, Commit: in.Commit, Tree: r.Tree, Statement: r.Statement,
		Failure: in.Red, CostUSD: usd, DurationMS: ms + r.DurationMS,
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
	out := decideData{
		Decision: last.Decision, Reason: last.Reason, Iteration: last.Iteration, Limit: last.Decision.ByLimit(), Failure: failure, Memory: m,
		Seen: map[string]string{}, Tasks: append([]loop.Task{}, in.Tasks...), Pull: in.Pull, Divergence: in.Divergence,
	}
	if last.Decision == loop.DecideDone {
		report := loop.Report(m, in.Tasks, in.Pull, in.Divergence)
		out.Report = &report
	}
	return &out, writeDecision(c.Root, session, &out)
}

// writeDecision writes the files that people read while the loop rests, and notes what they are like.
func writeDecision(root *workspace.Root, session loop.Session, out *decideData) error {
	files := map[string]any{loop.HistoryFile: out.Memory.Recent, loop.SessionFile: session}
	if out.Decision != loop.DecideCrashed { // else the agent's own list stays for a look
		files[loop.TasksFile] = out.Tasks
	}
	for name, v := range files {
		if err := writeJSON(root, name, v); err != nil {
			return err
		}
	}
	for name, limit := range map[string]int64{loop.TasksFile: loop.MaxTasksBytes, loop.StateFile: loop.MaxStateBytes} {
		data, ok, err := readFile(root, name, limit)
		if err != nil {
			continue // a file that cannot be read is refused when it is needed
		}
		out.Seen[name] = digest(data, ok)
	}
	return nil
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
