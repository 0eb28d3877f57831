package loop

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/skill"
)

// stopFile asks the loop to rest before its next iteration.
const stopFile = "stop"

// maxWallS bounds limits.wall_s of agent.run, in seconds.
const maxWallS = 7 * 24 * 3600

// maxBestOf bounds best_of, as the flow does.
const maxBestOf = 8

type beginInput struct {
	Spec         string             `json:"spec"`
	Instructions string             `json:"instructions"`
	Tasks        json.RawMessage    `json:"tasks"`
	Limits       loop.Limits        `json:"limits"`
	AgentLimits  map[string]float64 `json:"agent_limits"`
	AgentTimeout float64            `json:"agent_timeout_s"`
	Memory       loop.Memory        `json:"memory"`
	Failure      string             `json:"failure"`
	BestOf       int                `json:"best_of"`
	Answer       string             `json:"answer"`
	Resumed      bool               `json:"resumed"`
	Seen         map[string]string  `json:"seen"`
	Siblings     []sibling          `json:"siblings"`
}

// sibling is a repository next to that of the loop.
type sibling struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // that of its first checkout, which the flow compares
}

type beginData struct {
	Next        string             `json:"next"`
	Iteration   int                `json:"iteration"`
	Tasks       []loop.Task        `json:"tasks"`
	Prompt      string             `json:"prompt"`
	AgentLimits map[string]float64 `json:"agent_limits"`
	Tries       []int              `json:"tries"` // one element for each agent
	ReadOnly    []string           `json:"read_only"`
}

// Values of beginData.Next.
const (
	nextWork = "work" // call the agent
	nextRead = "read" // a person has written state.json
	nextStop = "stop" // a person wants the loop to rest
)

// beginIteration is loop.begin. A repetition has the same effect, so that it needs no checkpoint to go back to: files that a
// person edited survive a crash here.
func beginIteration(_ context.Context, c *skill.Call, in beginInput) (*beginData, error) {
	if err := in.Limits.Check(); err != nil {
		return nil, skill.BadInput("/limits", "%v", err)
	}
	if in.BestOf > maxBestOf {
		return nil, skill.BadInput("/best_of", "is %d, more than %d", in.BestOf, maxBestOf)
	}
	limits := in.Limits.Complete()
	tasks, err := parseTasks(in.Tasks)
	if err != nil {
		return nil, err
	}
	out := beginData{Next: nextWork, Iteration: in.Memory.Iterations + 1, Tasks: tasks, ReadOnly: []string{}, AgentLimits: limitAgent(in, limits)}
	for _, s := range in.Siblings {
		out.ReadOnly = append(out.ReadOnly, s.Path)
	}
	for i := range max(1, in.BestOf) {
		out.Tries = append(out.Tries, i+1)
	}
	_, stop, err := readFile(c.Root, stopFile, 1<<10)
	if stop && err == nil && !in.Resumed {
		out.Next = nextStop
		return &out, nil
	}
	if err := removeFile(c.Root, stopFile); err != nil {
		return nil, err
	}
	if in.Resumed {
		if err := adoptEdits(c, in, &out); err != nil {
			return nil, err
		}
	}
	return &out, writeFiles(c, in, limits, &out)
}

// adoptEdits takes over the files that a person edited while the loop rested.
func adoptEdits(c *skill.Call, in beginInput, out *beginData) error {
	data, ok, err := readFile(c.Root, loop.TasksFile, loop.MaxTasksBytes)
	if err != nil {
		return err
	}
	if ok && digest(data, ok) != in.Seen[loop.TasksFile] {
		if out.Tasks, err = loop.ParseTasks(data); err != nil {
			return badFile("%v", err)
		}
	}
	data, ok, err = readFile(c.Root, loop.StateFile, loop.MaxStateBytes)
	if err != nil {
		return err
	}
	if ok && digest(data, ok) != in.Seen[loop.StateFile] {
		if _, err := loop.ParseState(data); err != nil {
			return badFile("%v", err)
		}
		out.Next = nextRead
	}
	return nil
}

// writeFiles writes the files of an iteration, and its prompt.
func writeFiles(c *skill.Call, in beginInput, limits loop.Limits, out *beginData) error {
	spec, ok, err := readFile(c.Root, loop.SpecFile, maxText)
	if err != nil {
		return err
	}
	if !ok || !in.Resumed && in.Memory.Iterations == 0 {
		spec = []byte(in.Spec)
		if err := writeFile(c.Root, loop.SpecFile, spec); err != nil {
			return err
		}
	}
	dir, err := c.Root.Abs(loop.Dir)
	if err != nil {
		return err
	}
	injection := loop.Injection{
		Spec: string(spec), Instructions: in.Instructions, Dir: dir, Iteration: out.Iteration, MaxIterations: limits.MaxIterations,
		Tasks: out.Tasks, Last: in.Memory.Last(), Failure: in.Failure, Answer: in.Answer,
	}
	for _, s := range in.Siblings {
		at, err := c.Root.Abs(s.Path)
		if err != nil {
			return err
		}
		injection.Siblings = append(injection.Siblings, at)
	}
	if in.Resumed { // a person has left them
		if _, injection.SpecDiff, err = readFile(c.Root, loop.SpecDiffFile, maxText); err != nil {
			return err
		}
		if _, injection.Feedback, err = readFile(c.Root, loop.FeedbackFile, maxText); err != nil {
			return err
		}
	}
	out.Prompt = loop.Prompt(injection)
	if out.Next == nextWork {
		if err := removeFile(c.Root, loop.StateFile); err != nil {
			return err
		}
	}
	if err := writeJSON(c.Root, loop.TasksFile, out.Tasks); err != nil {
		return err
	}
	session := loop.Session{Iteration: out.Iteration, MaxIterations: limits.MaxIterations, Incomplete: loop.Incomplete(out.Tasks), Status: "running"}
	if last := in.Memory.Last(); last != nil {
		session.Last = last.Decision
	}
	if err := writeJSON(c.Root, loop.SessionFile, session); err != nil {
		return err
	}
	if err := writeJSON(c.Root, loop.HistoryFile, append([]loop.Entry{}, in.Memory.Recent...)); err != nil {
		return err
	}
	if in.Answer == "" {
		return removeFile(c.Root, loop.ResponseFile)
	}
	return writeJSON(c.Root, loop.ResponseFile, loop.Response{Answer: in.Answer})
}

// parseTasks reads a list of tasks from an input; without one, it is empty.
func parseTasks(raw json.RawMessage) ([]loop.Task, error) {
	if len(raw) == 0 {
		return []loop.Task{}, nil
	}
	tasks, err := loop.ParseTasks(raw)
	if err != nil {
		return nil, skill.BadInput("/tasks", "%v", err)
	}
	return tasks, nil
}

// limitAgent returns the limits of the next call of the agent: those given, and the rest of the loop's. Several agents share
// the rest of the cost.
func limitAgent(in beginInput, l loop.Limits) map[string]float64 {
	limits := map[string]float64{}
	maps.Copy(limits, in.AgentLimits)
	lower := func(name string, rest float64) {
		if old := limits[name]; old == 0 || rest < old { // 0 means no limit
			limits[name] = rest
		}
	}
	if l.MaxCostUSD > 0 {
		lower("max_cost_usd", loop.RoundUSD(max(l.MaxCostUSD-in.Memory.CostUSD, 0.01)/float64(max(1, in.BestOf))))
	}
	if l.MaxDurationS > 0 {
		if limits["wall_s"] == 0 { // agent.run ignores its timeout_s if there is a wall_s
			limits["wall_s"] = in.AgentTimeout
		}
		lower("wall_s", min(max(l.MaxDurationS-float64(in.Memory.DurationMS)/1000, 1), maxWallS))
	}
	return limits
}
