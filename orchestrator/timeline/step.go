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
	now     time.Time        // of the last entry
	seq     lattice.Seq      // of the last entry
	Current *Step            // the step of the last entry
	asking  *Step            // the call that a person is asked for
	lanes   map[string]*Step // where the flow (path "") and each iteration stand, by iteration path
	Words   string           // the last of the agent that ran last
	said    map[string]*Step // output of calls whose step is not known yet, by call id
}

// Step is one visit of a node, or one iteration: then Node is the one that it has come to. All text of it is a sprite's.
type Step struct {
	path           string // of the iteration, "" for a node of the flow itself
	Node, Skill    string
	Seq            lattice.Seq // of the entry that began it
	Started, Ended time.Time   // Ended is zero while it goes on
	State          StepState
	Message        string            // the last thing it said, or why it failed
	Below          []*Step           // iterations
	ended          map[StepState]int // how many of them came to which end
	endSeq         lattice.Seq       // of the entry that ended it, of an iteration
	Phases         []Phase
	Checkpoints    []time.Time // when boundaries were taken
	Calls          []Call      // of skills and models, as far as they have ended
	prepares       bool        // it makes or restores the sprite
	since          time.Time   // the call that goes on began
	answers        int         // of models
	spent          lattice.ModelUsage
}

// Phase is a stretch of a step, up to the next one. A step that failed and runs again tries again.
type Phase struct {
	State StepState
	From  time.Time
}

// Call is one call of a skill up to its end or pause, or one question to a model. A call that goes on after a pause is another one
// with the same id.
type Call struct {
	ID, Node, Skill string // without an ID it is a question, and Skill the model
	From, To        time.Time
	State           StepState
	Usage           lattice.ModelUsage // of a question
	Provider        string             // of the model of a question
	Failure         string             // the kind of failure, "" if it did not fail
}

// noteCall notes that a call of the current step came to an end or pause.
func (t *Timeline) noteCall(at time.Time, c Call) {
	if s := t.Current; s != nil {
		c.Node, c.From, c.To, s.since = s.Node, s.since, at, at
		if c.ID != "" {
			c.Skill = s.Skill
		}
		s.Calls = append(s.Calls, c)
	}
}

// goOnSince notes that the call of the current step goes on.
func (t *Timeline) goOnSince(at time.Time) {
	if t.Current != nil {
		t.Current.since = at
	}
}

// enter notes the state that a step has come to.
func (s *Step) enter(at time.Time) {
	if s != nil && (len(s.Phases) == 0 || s.Phases[len(s.Phases)-1].State != s.State) {
		s.Phases = append(s.Phases, Phase{s.State, at})
	}
}

// hasWaited turns the last phase into one of waiting: that a person is asked is state, which the entry of the answer tells.
func (s *Step) hasWaited() {
	if s != nil && len(s.Phases) > 0 && s.Phases[len(s.Phases)-1].State == Running {
		s.Phases[len(s.Phases)-1].State = Waiting
	}
}

// Attempts returns how often the step was tried.
func (s *Step) Attempts() int {
	n := 1
	for i, p := range s.Phases {
		if p.State == Failed && i < len(s.Phases)-1 {
			n++
		}
	}
	return n
}

// OnlyDecides reports whether the step has done nothing that people follow a run for: it called nothing, said nothing and
// waited for nothing, as a node does that sets variables or chooses where the flow goes on.
func (s *Step) OnlyDecides() bool {
	quiet := func(p Phase) bool { return p.State == Running || p.State == Done }
	return s.path == "" && !s.prepares && s.Skill == "" && s.Message == "" && len(s.Below)+len(s.Calls)+len(s.Checkpoints) == 0 &&
		quiet(Phase{State: s.State}) && !slices.ContainsFunc(s.Phases, func(p Phase) bool { return !quiet(p) })
}

// Path returns the path of the iteration, "" for a node of the flow itself.
func (s *Step) Path() string { return s.path }

// StepState says how a step stands.
type StepState string

// The states of a step.
const (
	Running StepState = "running"
	Done    StepState = "done"
	Failed  StepState = "failed"
	Waiting StepState = "waiting"
	Dropped StepState = "given up" // an iteration that did not matter any more
)

// New returns the timeline of a run without entries.
func New() *Timeline { return &Timeline{lanes: map[string]*Step{}, said: map[string]*Step{}} }

// Label returns the name of the step for people.
func (s *Step) Label() string {
	if s.path == "" {
		return s.Node
	}
	return strings.TrimSpace(path.Base(s.path) + " " + s.Node)
}

// Text draws a step on one line.
func (s *Step) Text(now time.Time, colour bool) string {
	mark := map[StepState]string{Running: "▸", Done: "✓", Failed: "✗", Waiting: "⏸", Dropped: "-"}[s.State]
	if colour {
		mark = map[StepState]string{Running: "\x1b[36m", Done: "\x1b[32m", Failed: "\x1b[31m", Waiting: "\x1b[33m", Dropped: "\x1b[2m"}[s.State] + mark + "\x1b[0m"
	}
	end := s.Ended
	if end.IsZero() {
		end = now
	}
	return strings.TrimRight(fmt.Sprintf("%s %-14s %-10s %6.1fs  %s", mark, s.Label(), s.Skill, max(0, end.Sub(s.Started).Seconds()), s.Message), " ")
}

// addAside adds a line about an action that no step waits for.
func (t *Timeline) addAside(at time.Time, action string, state StepState, message string) {
	t.steps = append(t.steps, &Step{Node: action, Started: at, Ended: at, State: state, Message: cli.Clean(message)})
}

func (t *Timeline) setState(state StepState, message string) {
	if t.Current != nil {
		t.Current.State, t.Current.Message = state, cli.Clean(message)
	}
}

func (t *Timeline) endStep(at time.Time, state StepState, message string) {
	if t.Current != nil && t.Current.Ended.IsZero() {
		t.Current.Ended, t.Current.State, t.Current.Message = at, state, cli.Clean(message)
	}
}

// hasIterations reports whether iterations of the step are under way.
func (s *Step) hasIterations() bool {
	return slices.ContainsFunc(s.Below, func(b *Step) bool { return b.Ended.IsZero() })
}

// sumUp sums up the iterations of a MAP that ended.
func (s *Step) sumUp() string {
	text := fmt.Sprintf("%d done", s.ended[Done])
	if n := s.ended[Failed]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := s.ended[Dropped]; n > 0 {
		text += fmt.Sprintf(", %d given up", n)
	}
	return text
}

// Steps returns the steps of the flow itself.
func (t *Timeline) Steps() []*Step { return t.steps }

// All returns every step, iterations behind their MAP.
func (t *Timeline) All() []*Step { return listSteps(t.steps) }

func listSteps(steps []*Step) (out []*Step) {
	for _, s := range steps {
		out = append(append(out, s), listSteps(s.Below)...)
	}
	return out
}
