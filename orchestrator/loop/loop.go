// Package loop tells where a run of the flow loop stands. Start with [Fold], which reads the journal of the run, and
// [Progress.Judge], which adds the state of the run and names the outcome with its exit code. [Import] reads the files of
// wisp, another program that runs loops. It is pure: the rules of the loop itself are in spritekit/loop.
package loop

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Flow is the name of the flow.
const Flow = "loop"

// Nodes of the flow that this package reads.
const (
	beginNode  = "begin"
	WorkNode   = "work" // calls the agent, after a checkpoint
	readNode   = "read"
	verifyNode = "verify"
	decideNode = "decide"
	AskNode    = "ask"     // waits for the answer to a question
	StopNode   = "stopped" // waits until a person has the loop go on
	RaiseNode  = "raise"   // waits for higher limits
	pushNode   = "push"
	pullNode   = "pull"
)

// Publishes reports whether a node asks to publish the result of a loop that is done.
func Publishes(node string) bool { return node == pushNode || node == pullNode }

// Outcome is the state of a loop.
type Outcome string

// Outcomes other than the decisions of spritekit/loop, which name why a loop stopped.
const (
	Running     Outcome = "running"
	Interrupted Outcome = "interrupted" // lattice was stopped or killed; the loop goes on where it was
	Stopped     Outcome = "stopped"     // by a person
	Rejected    Outcome = "rejected"    // a person rejected the result; the loop can go on
	Failed      Outcome = "failed"      // before or after the iterations
	Abandoned   Outcome = "abandoned"
)

// ExitCode returns the exit code of an outcome.
func (o Outcome) ExitCode() int {
	switch o {
	case Outcome(loop.DecideDone), Running:
		return protocol.ExitOK
	case Outcome(loop.DecideBlocked):
		return 10
	case Outcome(loop.DecideMaxIterations):
		return 11
	case Outcome(loop.DecideMaxCost):
		return 12
	case Outcome(loop.DecideStuck):
		return 13
	case Outcome(loop.DecideRepeated):
		return 14
	case Outcome(loop.DecideCrashed):
		return 15
	case Outcome(loop.DecideAsk):
		return protocol.ExitWaiting
	case Outcome(loop.DecideMaxDuration):
		return protocol.ExitTimeout
	case Interrupted, Stopped, Abandoned:
		return protocol.ExitCancelled
	}
	return protocol.ExitFailed
}

// Progress is the part of a loop's state that its journal holds.
type Progress struct {
	Iterations []loop.Entry `json:"iterations"`
	Memory     loop.Memory  `json:"-"`
	Tasks      []loop.Task  `json:"tasks"`
	// Working is the number of the iteration that has begun and has not ended, 0 if there is none.
	Working int `json:"working,omitempty"`
	// Pull and Divergence are the agent's own words about the result.
	Pull       *loop.Pull `json:"pr,omitempty"`
	Divergence string     `json:"divergence,omitempty"`
	resting    bool       // a person wanted it to rest
	begun      []begun
	reports    map[int]*protocol.VerifyReport // by iteration
}

// begun is the place in the journal at which the preparation of an iteration ended.
type begun struct {
	iteration int
	seq       lattice.Seq
}

// Span returns the part of the journal in which an iteration was last at work: from the fact that ended its preparation to that of
// the next iteration, or 0. It is empty if there is no such iteration.
func (p Progress) Span(iteration int) (from, to lattice.Seq) {
	for i, b := range slices.Backward(p.begun) {
		if b.iteration != iteration {
			continue
		}
		if i+1 < len(p.begun) {
			to = p.begun[i+1].seq
		}
		return b.seq, to
	}
	return 0, 0
}

// Report returns the report of the verification of an iteration, nil if there was none.
func (p Progress) Report(iteration int) *protocol.VerifyReport { return p.reports[iteration] }

// A Folder folds the journal of a run, entry by entry.
type Folder struct {
	nodes map[string]string // the last node that began, by iteration path
	steps []step
}

// step is a finished call that counts, with its place in the journal.
type step struct {
	seq  lattice.Seq
	node string
	data json.RawMessage
}

// Fold returns the progress that a journal tells.
func Fold(journal []lattice.Entry) (Progress, error) {
	var f Folder
	for _, e := range journal {
		if err := f.Add(e); err != nil {
			return Progress{}, err
		}
	}
	return f.Progress()
}

// Add takes the next entry. Events do not count: any program in the sprite can write them.
func (f *Folder) Add(e lattice.Entry) error {
	if e.Kind != lattice.EntryFact {
		return nil
	}
	if f.nodes == nil {
		f.nodes = map[string]string{}
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	switch fact := fact.(type) {
	case lattice.CallFinished:
		if node := f.nodes[lattice.IterationPath(fact.CommandID)]; fact.OK && slices.Contains([]string{beginNode, readNode, verifyNode, decideNode}, node) {
			f.steps = append(f.steps, step{e.Seq, node, fact.Data})
		}
	case lattice.Rewound:
		f.forgetAfter(fact.Moment.Seq)
	case lattice.PowerLost:
		if len(fact.State) > 0 {
			f.forgetAfter(fact.Seq)
		}
	}
	for _, name := range e.Started {
		at, node := path.Split(name)
		f.nodes[strings.TrimSuffix(at, "/")] = node
	}
	return nil
}

// forgetAfter drops the steps after a place to which the run went back.
func (f *Folder) forgetAfter(after lattice.Seq) {
	for n := len(f.steps); n > 0 && f.steps[n-1].seq > after; n-- {
		f.steps = f.steps[:n-1]
	}
}

// Progress returns the progress so far.
func (f *Folder) Progress() (Progress, error) {
	p := Progress{Iterations: []loop.Entry{}, Tasks: []loop.Task{}, reports: map[int]*protocol.VerifyReport{}}
	for _, s := range f.steps {
		var err error
		switch s.node {
		case beginNode:
			err = p.addBegin(s.seq, s.data)
		case readNode:
			err = json.Unmarshal(s.data, &struct {
				Tasks      *[]loop.Task `json:"tasks"`
				Pull       **loop.Pull  `json:"pr"`
				Divergence *string      `json:"divergence"`
			}{&p.Tasks, &p.Pull, &p.Divergence})
		case verifyNode:
			var r protocol.VerifyReport
			err = json.Unmarshal(s.data, &r)
			p.reports[p.Working] = &r
		default:
			err = p.addDecision(s.data)
		}
		if err != nil {
			return p, fmt.Errorf("entry %d: %w", s.seq, err)
		}
	}
	return p, nil
}

func (p *Progress) addBegin(seq lattice.Seq, raw json.RawMessage) error {
	var data struct {
		Next      string      `json:"next"`
		Iteration int         `json:"iteration"`
		Tasks     []loop.Task `json:"tasks"`
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return err
	}
	p.Working, p.Tasks, p.resting = data.Iteration, data.Tasks, data.Next == "stop"
	if p.resting {
		p.Working = 0
		return nil
	}
	p.begun = append(p.begun, begun{data.Iteration, seq})
	return nil
}

func (p *Progress) addDecision(raw json.RawMessage) error {
	var data struct {
		Memory     loop.Memory  `json:"memory"`
		Tasks      *[]loop.Task `json:"tasks"`
		Pull       *loop.Pull   `json:"pr"`
		Divergence string       `json:"divergence"`
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return err
	}
	if data.Tasks != nil {
		p.Tasks, p.Pull, p.Divergence = *data.Tasks, data.Pull, data.Divergence
	}
	p.Memory, p.Working, p.resting = data.Memory, 0, false
	recent := data.Memory.Recent
	if len(p.Iterations) > 0 && len(recent) > 0 { // a fork begins with those of the run from which it goes on
		recent = recent[len(recent)-1:]
	}
	p.Iterations = append(p.Iterations, recent...)
	return nil
}

// Judge names the outcome of a loop, and the reason: that of its last decision, unless the state of its run says more. It never
// says done unless the last decision was, and the flow went on to the push because of it.
func (p Progress) Judge(status lattice.RunStatus, driving bool, waits []lattice.Wait, failedAt string) (Outcome, string) {
	var last loop.Entry
	if e := p.Memory.Last(); e != nil {
		last = *e
	}
	switch status {
	case lattice.Succeeded:
		return Outcome(last.Decision), last.Reason
	case lattice.Canceled:
		return Abandoned, ""
	case lattice.Failed:
		if failedAt == "loop_"+string(last.Decision) {
			return Outcome(last.Decision), last.Reason
		}
		return Failed, ""
	case lattice.Waiting, lattice.Blocked, lattice.BlockedWaitingForUser:
		return p.judgeWait(waits, last)
	}
	if driving {
		return Running, ""
	}
	return Interrupted, ""
}

func (p Progress) judgeWait(waits []lattice.Wait, last loop.Entry) (Outcome, string) {
	for _, w := range waits {
		if Publishes(w.Node) && last.Decision == loop.DecideDone {
			return Outcome(loop.DecideDone), ""
		}
		switch w.Node {
		case StopNode:
			if p.resting {
				return Stopped, ""
			}
			if last.Decision == loop.DecideDone {
				return Rejected, w.Prompt
			}
			return Outcome(last.Decision), last.Reason
		case RaiseNode, AskNode:
			return Outcome(last.Decision), last.Reason
		}
	}
	if len(waits) > 0 {
		return Outcome(loop.DecideAsk), waits[0].Prompt
	}
	return Outcome(loop.DecideAsk), ""
}
