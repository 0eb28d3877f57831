// Package trace describes a run as an OpenTelemetry trace: the run, its steps, and their calls of skills and models, with the waits
// between. Begin with Fold, which computes the spans from the journal after the fact. It is pure: the same journal gives
// the same spans with the same ids, so that a trace can be sent again.
//
// A call in a sprite gets the variable TRACEPARENT (see tracecontext.Parent), which names the span of its work. Encode writes spans in the
// JSON form of OTLP, and Exporter sends them. Spans hold names, times and figures, and no text of sprites or models.
//
// Attributes follow the semantic conventions for CI/CD (cicd.*) and, at version 0.1.0, for generative AI (gen_ai.*).
package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// Run is the run whose journal is folded.
type Run struct {
	ID, Flow   string
	Status     lattice.RunStatus
	ForkedFrom string // the id of another run, "" for none
	Failure    string // the kind of failure of a failed run
	Began      time.Time
	Ended      time.Time // of its last entry
}

// Describe returns the run of a view.
func Describe(v api.RunView) Run {
	from, _, _ := strings.Cut(v.ForkedFrom, " ")
	run := Run{ID: v.RunID, Flow: v.Flow, Status: v.Status, ForkedFrom: from, Began: v.CreatedAt, Ended: v.UpdatedAt}
	if v.Error != nil {
		run.Failure = v.Error.Kind
	}
	return run
}

// Kind is the kind of a span, in the numbers of OTLP.
type Kind int

// The kinds. The zero value counts as Internal.
const (
	Internal Kind = 1
	Server   Kind = 2 // a run
	Client   Kind = 3 // it waits for an answer of another system
)

// Span is one stretch of a run.
type Span struct {
	Trace, ID, Parent string // in hexadecimal digits
	Name              string
	Kind              Kind
	Began, Ended      time.Time
	Attributes        []Attribute
	Links             []Link
	Failed            bool
}

// Attribute is one attribute of a span. Value is a string or an int.
type Attribute struct {
	Key   string
	Value any
}

// Link leads to a span that the span continues.
type Link struct{ Trace, Span string }

func spanID(parts ...string) string { return tracecontext.Digest(16, parts...) }

// results are the outcomes of steps and runs in the conventions.
var results = map[timeline.StepState]string{timeline.Done: "success", timeline.Failed: "failure", timeline.Dropped: "skip"}

// agentUse is the part of agent.run's data that a span shows.
type agentUse struct {
	Agent string `json:"agent"`
	Model string `json:"model"`
	Usage struct {
		Input  int `json:"input"`
		Output int `json:"output"`
	} `json:"usage"`
	Inherited struct { // part of Usage that the span of another call shows
		Usage struct {
			Input  int `json:"input"`
			Output int `json:"output"`
		} `json:"usage"`
	} `json:"inherited"`
}

// Fold returns the spans of a run that have ended. The run itself is the first one, once it has ended.
func Fold(r Run, entries []lattice.Entry) []Span {
	t, agents := timeline.New(), map[string]agentUse{}
	for _, e := range entries {
		t.Add(e)
		if e.Kind != lattice.EntryFact {
			continue
		}
		if fact, err := lattice.DecodeFact(e.Type, e.Body); err == nil {
			if f, ok := fact.(lattice.CallFinished); ok {
				var use agentUse
				if json.Unmarshal(f.Data, &use) == nil && use.Agent != "" {
					agents[f.CallID] = use
				}
			}
		}
	}
	f := fold{run: r, trace: tracecontext.TraceID(r.ID), agents: agents}
	root := spanID("run", r.ID)
	if r.Status.Ended() {
		f.addRun(root)
	}
	f.addSteps(t.Steps(), root)
	return f.spans
}

type fold struct {
	run    Run
	trace  string
	agents map[string]agentUse // by call
	spans  []Span
}

func (f *fold) addSpan(s Span) {
	s.Trace = f.trace
	if s.Ended.Before(s.Began) {
		s.Ended = s.Began
	}
	f.spans = append(f.spans, s)
}

func (f *fold) addRun(id string) {
	result := map[lattice.RunStatus]string{lattice.Succeeded: "success", lattice.Failed: "failure", lattice.Canceled: "cancellation"}[f.run.Status]
	s := Span{ID: id, Name: strings.TrimSpace("RUN " + f.run.Flow), Kind: Server, Began: f.run.Began, Ended: f.run.Ended, Failed: f.run.Status == lattice.Failed, Attributes: []Attribute{
		{"cicd.pipeline.action.name", "RUN"}, {"cicd.pipeline.name", f.run.Flow}, {"cicd.pipeline.run.id", f.run.ID}, {"cicd.pipeline.result", result},
	}}
	if s.Failed {
		s.Attributes = append(s.Attributes, errorType(f.run.Failure))
	}
	if from := f.run.ForkedFrom; from != "" {
		s.Links = []Link{{tracecontext.TraceID(from), spanID("run", from)}}
	}
	f.addSpan(s)
}

// addSteps adds the steps that have ended, with their stretches, and the iterations of all.
func (f *fold) addSteps(steps []*timeline.Step, parent string) {
	for _, step := range steps {
		key := fmt.Sprintf("%d%s", step.Seq, step.Path())
		id := spanID("step", f.run.ID, key)
		name := step.Node
		if step.Path() != "" {
			name = path.Base(step.Path())
		}
		if !step.Ended.IsZero() {
			s := Span{ID: id, Parent: parent, Name: name, Began: step.Started, Ended: step.Ended, Failed: step.State == timeline.Failed, Attributes: []Attribute{
				{"cicd.pipeline.task.name", name}, {"cicd.pipeline.task.run.id", f.run.ID + "/" + key}, {"cicd.pipeline.task.run.result", cmp.Or(results[step.State], "error")},
			}}
			if s.Failed {
				failure := ""
				if n := len(step.Calls); n > 0 {
					failure = step.Calls[n-1].Failure
				}
				s.Attributes = append(s.Attributes, errorType(failure))
			}
			f.addSpan(s)
		}
		f.addCalls(step, id)
		f.addSteps(step.Below, id)
	}
}

// addCalls adds the calls of a step. A call that goes on after a pause links to its span before the pause, and the time between is a
// span as well.
func (f *fold) addCalls(step *timeline.Step, parent string) {
	before := map[string]Link{}
	paused := map[string]time.Time{}
	for i, c := range step.Calls {
		number := strconv.Itoa(i)
		s := Span{Parent: parent, Name: cmp.Or(c.Skill, "call"), Began: c.From, Ended: c.To, Failed: c.State == timeline.Failed}
		switch last, again := before[c.ID]; {
		case c.ID == "":
			s.ID, s.Name, s.Kind = spanID("model", parent, number), "chat "+c.Skill, Client
			s.Attributes = []Attribute{{"gen_ai.operation.name", "chat"}, {"gen_ai.provider.name", c.Provider}, {"gen_ai.request.model", c.Skill}, {"gen_ai.response.model", c.Skill}, {"gen_ai.usage.input_tokens", c.Usage.InputTokens}, {"gen_ai.usage.output_tokens", c.Usage.OutputTokens}}
		case again:
			f.addSpan(Span{ID: spanID("wait", parent, number), Parent: parent, Name: "wait", Began: paused[c.ID], Ended: c.From, Links: []Link{last}})
			s.ID, s.Links = spanID("call", c.ID, number), []Link{last}
		default:
			s.ID = tracecontext.CallSpan(c.ID)
		}
		if c.ID != "" {
			s.Attributes = f.describeCall(c)
			before[c.ID], paused[c.ID] = Link{f.trace, s.ID}, c.To
		}
		if use, ok := f.agents[c.ID]; ok {
			s.Name = "invoke_agent " + use.Agent
		}
		if s.Failed {
			s.Attributes = append(s.Attributes, errorType(c.Failure))
		}
		f.addSpan(s)
	}
}

// errorType returns the attribute of a failed span.
func errorType(failure string) Attribute {
	return Attribute{"error.type", cmp.Or(failure, "_OTHER")}
}

// describeCall returns the attributes of a call of a skill.
func (f *fold) describeCall(c timeline.Call) []Attribute {
	all := []Attribute{{"lattice.node", c.Node}, {"lattice.skill", c.Skill}, {"lattice.call.id", c.ID}}
	use, ok := f.agents[c.ID]
	if !ok {
		return all
	}
	all = append(all, Attribute{"gen_ai.operation.name", "invoke_agent"}, Attribute{"gen_ai.agent.name", use.Agent})
	if use.Model != "" {
		all = append(all, Attribute{"gen_ai.response.model", use.Model})
	}
	return append(all, Attribute{"gen_ai.usage.input_tokens", use.Usage.Input - use.Inherited.Usage.Input}, Attribute{"gen_ai.usage.output_tokens", use.Usage.Output - use.Inherited.Usage.Output})
}
