package timeline

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Timeline folds a run's entries into one step per node visit, and one per iteration of a MAP below the MAP's. It is
// pure; both lattice show and the live progress of lattice run draw it.
type Timeline struct {
	steps   []*Step          // of the flow itself
	Current *Step            // the step of the last entry
	asking  *Step            // the call that a person is asked for
	lanes   map[string]*Step // where the flow (path "") and each iteration stand, by iteration path
	Words   string           // the last of the agent that ran last
	said    map[string]*Step // output of calls whose step is not known yet, by call id
}

// Step is one visit of a node, or one iteration: then node is the one that it has come to.
type Step struct {
	path           string // of the iteration, "" for a node of the flow itself
	node, skill    string
	started, Ended time.Time
	State          StepState
	message        string // the last thing it said, or why it failed
	below          []*Step
	answers        int // of models
	spent          lattice.ModelUsage
}

type StepState string

const (
	stepRunning StepState = "running"
	stepDone    StepState = "done"
	stepFailed  StepState = "failed"
	stepWaiting StepState = "waiting"
	stepDropped StepState = "given up" // an iteration that did not matter any more
)

func New() *Timeline { return &Timeline{lanes: map[string]*Step{}, said: map[string]*Step{}} }

// labelStep returns the name of the step for people.
func (s *Step) labelStep() string {
	if s.path == "" {
		return s.node
	}
	return strings.TrimSpace(path.Base(s.path) + " " + s.node)
}

// Text draws a step on one line.
func (s *Step) Text(now time.Time, colour bool) string {
	mark := map[StepState]string{stepRunning: "▸", stepDone: "✓", stepFailed: "✗", stepWaiting: "⏸", stepDropped: "-"}[s.State]
	if colour {
		mark = map[StepState]string{stepRunning: "\x1b[36m", stepDone: "\x1b[32m", stepFailed: "\x1b[31m", stepWaiting: "\x1b[33m", stepDropped: "\x1b[2m"}[s.State] + mark + "\x1b[0m"
	}
	end := s.Ended
	if end.IsZero() {
		end = now
	}
	return strings.TrimRight(fmt.Sprintf("%s %-14s %-10s %6.1fs  %s", mark, s.labelStep(), s.skill, max(0, end.Sub(s.started).Seconds()), s.message), " ")
}

// addAside adds a line about an action that no step waits for.
func (t *Timeline) addAside(at time.Time, action string, state StepState, message string) {
	t.steps = append(t.steps, &Step{node: action, started: at, Ended: at, State: state, message: cli.Clean(message)})
}

func (t *Timeline) setState(state StepState, message string) {
	if t.Current != nil {
		t.Current.State, t.Current.message = state, cli.Clean(message)
	}
}

func (t *Timeline) endStep(at time.Time, state StepState, message string) {
	if t.Current != nil && t.Current.Ended.IsZero() {
		t.Current.Ended, t.Current.State, t.Current.message = at, state, cli.Clean(message)
	}
}

// hasIterations reports whether iterations of the step are under way.
func (s *Step) hasIterations() bool {
	return slices.ContainsFunc(s.below, func(b *Step) bool { return b.Ended.IsZero() })
}

// countStates sums up the iterations of a MAP.
func countStates(all []*Step) string {
	n := map[StepState]int{}
	for _, s := range all {
		n[s.State]++
	}
	text := fmt.Sprintf("%d done", n[stepDone])
	if n[stepFailed] > 0 {
		text += fmt.Sprintf(", %d failed", n[stepFailed])
	}
	if n[stepDropped] > 0 {
		text += fmt.Sprintf(", %d given up", n[stepDropped])
	}
	return text
}

// All returns every step, iterations behind their MAP.
func (t *Timeline) All() []*Step { return listSteps(t.steps) }

func listSteps(steps []*Step) (out []*Step) {
	for _, s := range steps {
		out = append(append(out, s), listSteps(s.below)...)
	}
	return out
}
