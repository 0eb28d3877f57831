package agent

import (
	"errors"
	"io/fs"

	"github.com/spritekit/lattice/skills/agent/record"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// An agent that is cut off in its work goes on in its session, with the files as they are:
//
//	the agent crashed      it is started again in the same call
//	the call was cut off   the same call is made again, and finds the record that noteProgress wrote after each turn
//
// An agent without sessions begins a new one with its task and the record of what it said and did (package record). An agent of
// which nothing is known before it ends, such as a plain program, cannot go on: it may not read what a prompt says of work that
// is half done. In a run, the call then fails with CodeCutOff, and lattice restores the files from before the call and makes it
// again, as the same attempt.

const (
	codeFailed        = "agent_failed"
	maxCrashes        = 3 // of an agent, after each of which it made progress
	interruptedPrompt = "You were interrupted in your work. The files are as you left them; a command that ran then may have been cut off. Go on with your task.\n"
)

// progress is the record of a launch, by which the agent can go on.
type progress struct{ *launch }

// newPending returns the record of the call after an invocation.
func (l progress) newPending(r report, o outcome) pending {
	if l.adapter.Output == "text" {
		l.said.AddOutput(r.FinalText)
	}
	return pending{Session: l.sessionAfter(o), Answers: l.answers, SoFar: r.SoFar, Inherited: l.inherited, Changed: r.FilesChanged, Said: l.recorded()}
}

// recorded returns the record of the conversation up to now.
func (l progress) recorded() string { return l.secrets.Text(l.said.String()) }

// tells reports whether the agent says while it works what it does.
func (l progress) tells() bool { return l.adapter.Output != "text" && l.adapter.Output != "document" }

// continues reports whether the agent can go on with what it did: in its session, or in a new one with the record of it.
func (l progress) continues(o outcome) bool {
	if l.adapter.Resumes {
		return l.sessionAfter(o).ID != ""
	}
	return l.tells()
}

// noteProgress records the session while the agent works. changed are the files that are known to have changed.
func (l progress) noteProgress(o outcome, changed []string) error {
	if !l.continues(o) {
		return nil
	}
	p := pending{Running: true, Session: l.sessionAfter(o), Answers: l.answers, SoFar: l.sumUp(o), Inherited: l.inherited, Changed: changed, Said: l.recorded()}
	return p.save(l.call)
}

// forgetProgress removes the record when the call has ended.
func (l progress) forgetProgress() error {
	if err := l.call.Root.Remove(waitingFile(l.call)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startOver decides about a call that was cut off and has no record of its progress. err says why there is none.
func (l progress) startOver(err error) error {
	switch {
	case l.call.Resume != nil:
		return err
	case l.call.RunID == "":
		return nil
	}
	return fault.Failed(protocol.CodeCutOff, "the call was cut off, and %s cannot go on where it was", l.adapter.Name)
}

// canGoOn reports whether the agent crashed after it made progress.
func (l progress) canGoOn(err error, o outcome) bool {
	t := o.out.tally
	failed, ok := errors.AsType[*skill.Error](err)
	return ok && failed.Code == codeFailed && o.cause == nil && len(t.Ends) == 0 && t.Turns > 0 && l.continues(o) && l.crashes < maxCrashes
}

// goOnAfterCrash makes the next invocation continue the session.
func (l progress) goOnAfterCrash(r report, o outcome) {
	l.crashes++
	l.prior, l.changed, l.former = r.SoFar, r.FilesChanged, l.recorded()
	if l.adapter.Resumes {
		l.session, l.mode, l.prompt = l.sessionAfter(o), modeResume, interruptedPrompt
	} else {
		l.prompt = record.Prompt(l.task, l.former, interruptedPrompt)
		l.forgetUse()
	}
	l.call.Warn("agent_crashed", l.adapter.Name+" ended without saying how, and goes on")
}
