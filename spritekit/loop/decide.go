package loop

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Decision is the way in which a loop goes on after an iteration.
type Decision string

const (
	DecideDone          Decision = "done"           // the work is proven
	DecideContinue      Decision = "continue"       // next iteration
	DecideRefuse        Decision = "refuse"         // next iteration, which is told why DONE does not count
	DecideAsk           Decision = "needs_input"    // a person answers
	DecideBlocked       Decision = "blocked"        // the agent cannot go on
	DecideStuck         Decision = "stuck"          // no progress
	DecideRepeated      Decision = "repeated_error" // the same error again and again
	DecideCrashed       Decision = "crashed"        // no valid answer
	DecideMaxIterations Decision = "max_iterations"
	DecideMaxCost       Decision = "max_cost"
	DecideMaxDuration   Decision = "max_duration"
)

// Stops reports whether a loop rests after d until a person has it go on.
func (d Decision) Stops() bool { return d != DecideContinue && d != DecideRefuse }

// ByLimit reports whether d is a limit, which a person has to raise.
func (d Decision) ByLimit() bool {
	return d == DecideMaxIterations || d == DecideMaxCost || d == DecideMaxDuration
}

// Limits bound a whole loop, with all its resumptions.
type Limits struct {
	MaxIterations int     `json:"max_iterations,omitempty"` // 0 is 50
	MaxCostUSD    float64 `json:"max_cost_usd,omitempty"`   // 0 is without a limit
	MaxDurationS  float64 `json:"max_duration_s,omitempty"` // work, without waits for people; 0 is without a limit
	StuckAfter    int     `json:"stuck_after,omitempty"`    // iterations without progress; 0 is 3
	RepeatAfter   int     `json:"repeat_after,omitempty"`   // iterations with the same error; 0 is 5
}

// Defaults, and the bounds of the values that people choose.
const (
	DefaultIterations = 50
	DefaultStuck      = 3
	DefaultRepeat     = 5
	MostIterations    = 500
	MostRecent        = 20 // of Memory.Recent; StuckAfter and RepeatAfter are not larger
)

// Complete returns l with its defaults.
func (l Limits) Complete() Limits {
	l.MaxIterations = cmp.Or(l.MaxIterations, DefaultIterations)
	l.StuckAfter, l.RepeatAfter = cmp.Or(l.StuckAfter, DefaultStuck), cmp.Or(l.RepeatAfter, DefaultRepeat)
	return l
}

// RoundUSD returns dollars in whole millionths. Sums and differences of costs are rounded: three times 0.35 reaches a limit of 1.05. A
// float64 of more dollars than there are has no millionths.
func RoundUSD(dollars float64) float64 {
	if math.Abs(dollars) > 1e15 {
		return dollars
	}
	return math.Round(dollars*1e6) / 1e6
}

// Check returns an error if a limit is out of its bounds.
func (l Limits) Check() error {
	l = l.Complete()
	switch {
	case l.MaxIterations < 1 || l.MaxIterations > MostIterations:
		return fmt.Errorf("max_iterations is %d, not between 1 and %d", l.MaxIterations, MostIterations)
	case l.StuckAfter < 1 || l.StuckAfter > MostRecent:
		return fmt.Errorf("stuck_after is %d, not between 1 and %d", l.StuckAfter, MostRecent)
	case l.RepeatAfter < 1 || l.RepeatAfter > MostRecent:
		return fmt.Errorf("repeat_after is %d, not between 1 and %d", l.RepeatAfter, MostRecent)
	case l.MaxCostUSD < 0 || l.MaxDurationS < 0:
		return fmt.Errorf("a limit is negative")
	}
	return nil
}

// Observation is one iteration as it was seen. Either Crash is set, or State.
type Observation struct {
	Crash   string `json:"crash,omitempty"` // why there is no valid answer
	State   State  `json:"state"`
	Tasks   []Task `json:"tasks"`
	Resumed bool   `json:"resumed,omitempty"` // a person had the loop go on before it
	Undone  bool   `json:"undone,omitempty"`  // the files are again those before the agent's call
	// The verification of the commit. Green is lattice's word.
	Green      bool     `json:"green"`
	Commit     string   `json:"commit,omitempty"`
	Tree       string   `json:"tree,omitempty"`
	Statement  string   `json:"statement,omitempty"`
	Failing    []string `json:"failing,omitempty"` // tests
	Failure    string   `json:"failure,omitempty"` // text
	CostUSD    float64  `json:"cost_usd,omitempty"`
	DurationMS int64    `json:"duration_ms,omitempty"`
}

// Entry is an iteration in history.json.
type Entry struct {
	Iteration      int      `json:"iteration"`
	Summary        string   `json:"summary"`
	TasksCompleted int      `json:"tasks_completed"`
	Status         Status   `json:"status,omitempty"` // none after a crash
	Decision       Decision `json:"decision"`
	Reason         string   `json:"reason,omitempty"`
	Question       string   `json:"question,omitempty"`
	Tasks          int      `json:"tasks"`
	Green          bool     `json:"green"`
	Commit         string   `json:"commit,omitempty"`
	Statement      string   `json:"statement,omitempty"`
	Fingerprint    string   `json:"fingerprint"`
	Error          string   `json:"error,omitempty"` // normalized
	Advanced       bool     `json:"advanced"`        // a task passes for the first time, or the list was made
	Resumed        bool     `json:"resumed,omitempty"`
	Undone         bool     `json:"undone,omitempty"` // the files went back to those before the agent's call
	CostUSD        float64  `json:"cost_usd"`
	DurationMS     int64    `json:"duration_ms"`
}

// Memory is everything that a loop remembers of earlier iterations. It does not grow with their number.
type Memory struct {
	Iterations int      `json:"iterations"`
	CostUSD    float64  `json:"cost_usd"`
	DurationMS int64    `json:"duration_ms"`
	Known      []string `json:"known"`  // names of all tasks that were ever listed
	Passed     []string `json:"passed"` // names of all tasks that ever passed
	Recent     []Entry  `json:"recent"` // the last iterations, at most MostRecent
	// Finished are the names of the tasks that have a commit of their own, and Loose is the last commit, "" if it has finished a task. The
	// next commit replaces a loose one, so that there is one commit for each task.
	Finished []string `json:"finished,omitempty"`
	Loose    string   `json:"loose,omitempty"`
	Proven   bool     `json:"proven,omitempty"` // an iteration was green
}

// Last returns the last iteration, nil before the first.
func (m Memory) Last() *Entry {
	if len(m.Recent) == 0 {
		return nil
	}
	return &m.Recent[len(m.Recent)-1]
}

// Decide appends an iteration to m and decides how the loop goes on; the decision is that of the last entry. The rows of the
// table, of which the first that holds counts:
//
//	no valid answer, and neither cost nor duration reached   crashed
//	DONE, green, all tasks pass, none is missing             done
//	BLOCKED                                                  blocked
//	NEEDS_INPUT                                              needs_input
//	the cost, duration or number of iterations is reached    max_cost, max_duration, max_iterations
//	the same error RepeatAfter times                         repeated_error
//	StuckAfter iterations in which no task newly passes,
//	or with the same fingerprint                             stuck
//	DONE otherwise                                           refuse
//	CONTINUE                                                 continue
//
// Repetitions are counted since a person last had the loop go on.
func Decide(m Memory, o Observation, l Limits) Memory {
	l = l.Complete()
	passing := Passing(o.Tasks)
	e := Entry{
		Iteration: m.Iterations + 1, Summary: cutText(o.State.Summary, 2000), TasksCompleted: len(o.Tasks) - Incomplete(o.Tasks), Tasks: len(o.Tasks),
		Status: o.State.Status, Question: cutText(o.State.Question, 4000), Green: o.Green, Commit: o.Commit, Statement: o.Statement,
		Resumed: o.Resumed, Undone: o.Undone, CostUSD: o.CostUSD, DurationMS: o.DurationMS,
	}
	failure := cmp.Or(o.Crash, o.Failure, o.State.Error)
	e.Error = NormalizeError(failure)
	e.Fingerprint = Fingerprint(Progress{Tree: o.Tree, Passing: passing, Failing: o.Failing, Error: failure})
	missing := removeAll(m.Known, Names(o.Tasks))
	e.Advanced = len(removeAll(passing, m.Passed)) > 0 || len(m.Known) == 0 && len(o.Tasks) > 0

	m.Iterations++
	m.CostUSD = RoundUSD(m.CostUSD + o.CostUSD)
	m.DurationMS += o.DurationMS
	m.Known, m.Passed = uniteSets(m.Known, Names(o.Tasks)), uniteSets(m.Passed, passing)
	m.Proven = m.Proven || o.Green
	if o.Commit != "" && !o.Undone {
		m.Loose = o.Commit
		if len(removeAll(passing, m.Finished)) > 0 {
			m.Loose = ""
		}
		m.Finished = passing // one that fails again is finished by another commit
	}
	m.Recent = append(slices.Clone(m.Recent), e)
	if n := len(m.Recent); n > MostRecent {
		m.Recent = m.Recent[n-MostRecent:]
	}
	m.Last().Decision, m.Last().Reason = m.chooseDecision(o, missing, l)
	return m
}

func (m Memory) chooseDecision(o Observation, missing []string, l Limits) (Decision, string) {
	refusal := whyNotDone(o, missing)
	tooDear := l.MaxCostUSD > 0 && m.CostUSD >= l.MaxCostUSD
	tooLong := l.MaxDurationS > 0 && float64(m.DurationMS) >= 1000*l.MaxDurationS
	switch {
	case o.Crash != "" && !tooDear && !tooLong: // at a limit, lattice ended the agent
		return DecideCrashed, o.Crash
	case o.Crash == "" && o.State.Status == Done && refusal == "":
		return DecideDone, ""
	case o.Crash == "" && o.State.Status == Blocked:
		return DecideBlocked, cmp.Or(o.State.Error, o.State.Summary, "the agent gives no reason")
	case o.Crash == "" && o.State.Status == NeedsInput:
		return DecideAsk, cmp.Or(o.State.Question, o.State.Summary)
	case tooDear:
		return DecideMaxCost, fmt.Sprintf("the iterations cost %.2f of %.2f US dollars", m.CostUSD, l.MaxCostUSD)
	case tooLong:
		return DecideMaxDuration, fmt.Sprintf("the iterations took %.0f of %.0f seconds", float64(m.DurationMS)/1000, l.MaxDurationS)
	case m.Iterations >= l.MaxIterations:
		return DecideMaxIterations, fmt.Sprintf("not done after iteration %d of %d", m.Iterations, l.MaxIterations)
	}
	if last := m.lastIterations(l.RepeatAfter); len(last) > 0 && last[0].Error != "" && holdForAll(last, func(e Entry) bool { return e.Error == last[0].Error }) {
		return DecideRepeated, fmt.Sprintf("%d iterations ended with the same error: %s", l.RepeatAfter, last[0].Error)
	}
	if last := m.lastIterations(l.StuckAfter); len(last) > 0 {
		if holdForAll(last, func(e Entry) bool { return e.Fingerprint == last[0].Fingerprint }) {
			return DecideStuck, fmt.Sprintf("%d iterations left the same files, tasks and failures", l.StuckAfter)
		}
		if holdForAll(last, func(e Entry) bool { return !e.Advanced }) {
			return DecideStuck, fmt.Sprintf("no task newly passes in %d iterations", l.StuckAfter)
		}
	}
	if o.State.Status == Done {
		return DecideRefuse, refusal
	}
	return DecideContinue, ""
}

// whyNotDone returns the reason why DONE does not count, "" if it does.
func whyNotDone(o Observation, missing []string) string {
	switch {
	case len(o.Tasks) == 0:
		return "the list of tasks is empty"
	case len(missing) > 0:
		return fmt.Sprintf("the task %q is missing from the list", cutText(missing[0], 200))
	case Incomplete(o.Tasks) > 0:
		return fmt.Sprintf("%d of %d tasks do not pass", Incomplete(o.Tasks), len(o.Tasks))
	case !o.Green || o.Statement == "":
		return "the verification of the commit is not green"
	}
	return ""
}

// lastIterations returns the last n iterations, none if fewer have ended since a person had the loop go on.
func (m Memory) lastIterations(n int) []Entry {
	if len(m.Recent) < n {
		return nil
	}
	last := m.Recent[len(m.Recent)-n:]
	if slices.ContainsFunc(last[1:], func(e Entry) bool { return e.Resumed }) {
		return nil
	}
	return last
}

func holdForAll(list []Entry, holds func(Entry) bool) bool {
	return !slices.ContainsFunc(list, func(e Entry) bool { return !holds(e) })
}

// removeAll returns the elements of list that are not in other.
func removeAll(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// uniteSets returns the elements of both lists, sorted and each once.
func uniteSets(a, b []string) []string {
	both := append(append([]string{}, a...), b...)
	slices.Sort(both)
	return slices.Compact(both)
}

// cutText returns at most n characters of text.
func cutText(text string, n int) string {
	if runes := []rune(strings.TrimSpace(text)); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return strings.TrimSpace(text)
}
