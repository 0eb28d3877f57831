// Package loop describes the files by which an agent and a loop speak, and decides how a loop goes on. Start with [Decide], the
// decision table: it takes the [Memory] of a loop and one [Observation], and returns the next memory. [ParseState] and
// [ParseTasks] read the files of an agent, [Prompt] writes the text that it gets, and [Fingerprint] identifies progress.
//
// The package is pure: no clock, no file, no process. Skills call it in a sprite, and lattice records each result. A decision
// here never proves work: a flow accepts "done" only together with a signed statement that a commit is green.
package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Dir is the folder of a loop's files, below the workspace.
const Dir = ".lattice/loop"

// Names of the files in Dir. An agent writes the first five, a person may edit all of them while the loop rests.
const (
	StateFile      = "state.json"
	TasksFile      = "tasks.json"
	PullFile       = "pr.json"
	DivergenceFile = "divergence.md" // where the work differs from the spec, and why
	FeedbackFile   = "feedback.md"   // of reviewers
	SpecFile       = "spec.md"
	SpecDiffFile   = "rfc-diff.md" // how the spec changed
	ResponseFile   = "response.json"
	HistoryFile    = "history.json"
	SessionFile    = "session.json"
)

// Limits of what an agent may write. Longer texts are refused, because they come back in each prompt.
const (
	MaxStateBytes = 64 << 10
	MaxTasksBytes = 256 << 10
	MaxTasks      = 500
)

// Status is what an agent says about the work. It is the member status of state.json.
type Status string

const (
	Continue   Status = "CONTINUE"    // tasks are left
	Done       Status = "DONE"        // all tasks pass
	NeedsInput Status = "NEEDS_INPUT" // a person has to answer a question
	Blocked    Status = "BLOCKED"     // the agent cannot go on
)

// State is state.json, the last thing that an agent writes in an iteration.
type State struct {
	Status   Status `json:"status"`
	Summary  string `json:"summary"`
	Question string `json:"question,omitempty"`
	Error    string `json:"error,omitempty"`
	// Verification is the agent's own check. It proves nothing.
	Verification *Verification `json:"verification,omitempty"`
}

// Verification is an agent's claim about its own check.
type Verification struct {
	Method  string `json:"method"` // tests, typecheck, build, manual or none
	Passed  bool   `json:"passed"`
	Details string `json:"details,omitempty"`
}

// Task is an element of tasks.json. One task is one commit.
type Task struct {
	Category    string   `json:"category,omitempty"` // setup, feature, bugfix, refactor, test or docs
	Description string   `json:"description"`
	Steps       []string `json:"steps,omitempty"`
	Passes      bool     `json:"passes"`
}

// Pull is pr.json, the pull request that an agent proposes.
type Pull struct {
	Title string `json:"title"`
	Body  string `json:"body"`
}

// Response is response.json, a person's answer. The agent removes the file after it has read it.
type Response struct {
	Answer string `json:"answer"`
}

// Session is session.json, which says to an agent and to people where the loop stands.
type Session struct {
	Iteration     int      `json:"iteration"`
	MaxIterations int      `json:"max_iterations"`
	Incomplete    int      `json:"incomplete"` // tasks that do not pass
	Status        string   `json:"status"`     // running, stopped or completed
	Last          Decision `json:"last,omitempty"`
}

// ParseState reads state.json. Members that it does not know are ignored; a status that it does not know is an error, because
// a loop that goes on by mistake costs more than one that stops.
func ParseState(data []byte) (State, error) {
	var s State
	if len(data) > MaxStateBytes {
		return s, fmt.Errorf("%s has more than %d bytes", StateFile, MaxStateBytes)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("%s is not valid: %w", StateFile, err)
	}
	switch s.Status {
	case Continue, Done, Blocked:
	case NeedsInput:
		if s.Question == "" && s.Summary == "" {
			return State{}, fmt.Errorf("%s says %s without a question", StateFile, NeedsInput)
		}
	case "":
		return State{}, fmt.Errorf("%s has no status", StateFile)
	default:
		return State{}, fmt.Errorf("%s has the unknown status %.40q", StateFile, s.Status)
	}
	return s, nil
}

// ParseTasks reads tasks.json.
func ParseTasks(data []byte) ([]Task, error) {
	if len(data) > MaxTasksBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", TasksFile, MaxTasksBytes)
	}
	var list []Task
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s is not valid: %w", TasksFile, err)
	}
	if len(list) > MaxTasks {
		return nil, fmt.Errorf("%s has %d tasks, at most %d are allowed", TasksFile, len(list), MaxTasks)
	}
	for i, t := range list {
		if nameOf(t) == "" {
			return nil, fmt.Errorf("%s: task %d has no description", TasksFile, i+1)
		}
	}
	return append([]Task{}, list...), nil
}

// nameOf returns the name of a task: its description, in which white space does not count.
func nameOf(t Task) string { return strings.Join(strings.Fields(t.Description), " ") }

// Names returns the names of all tasks, sorted and each once.
func Names(tasks []Task) []string {
	names := []string{}
	for _, t := range tasks {
		names = append(names, nameOf(t))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Passing returns the names of the tasks that pass, sorted. Of two tasks with one name both have to pass.
func Passing(tasks []Task) []string {
	failing := map[string]bool{}
	for _, t := range tasks {
		if !t.Passes {
			failing[nameOf(t)] = true
		}
	}
	return slices.DeleteFunc(Names(tasks), func(name string) bool { return failing[name] })
}

// Undo returns tasks as they are when the work of an iteration was undone: none passes that did not pass before.
func Undo(tasks, before []Task) []Task {
	passed := Passing(before)
	undone := slices.Clone(tasks)
	for i, t := range undone {
		undone[i].Passes = t.Passes && slices.Contains(passed, nameOf(t))
	}
	return undone
}

// Incomplete returns the number of tasks that do not pass.
func Incomplete(tasks []Task) int {
	n := 0
	for _, t := range tasks {
		if !t.Passes {
			n++
		}
	}
	return n
}
