package agent

import (
	"errors"
	"io/fs"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// An agent that is cut off in its work goes on in its session, with the files as they are:
//
//	the agent crashed      it is started again in the same call
//	the call was cut off   the same call is made again, and finds the record that noteProgress wrote after each turn
//
// An agent without sessions cannot go on. In a run, the call then fails with CodeCutOff, and lattice restores the files from
// before the call and makes it again.

const (
	codeFailed        = "agent_failed"
	maxCrashes        = 3 // of an agent, after each of which it made progress
	interruptedPrompt = "You were interrupted in your work. The files are as you left them; a command that ran then may have been cut off. Go on with your task.\n"
)

// newPending returns the record of the call after an invocation.
func (l *launch) newPending(r report, o outcome) pending {
	return pending{Session: l.sessionAfter(o), Answers: l.answers, SoFar: r.SoFar, Changed: r.FilesChanged}
}

// noteProgress records the session while the agent works. changed are the files that are known to have changed.
func (l *launch) noteProgress(o outcome, changed []string) error {
	p := pending{Running: true, Session: l.sessionAfter(o), Answers: l.answers, SoFar: l.sumUp(o), Changed: changed}
	if p.Session.ID == "" || !l.adapter.Resumes {
		return nil
	}
	return p.save(l.call)
}

// forgetProgress removes the record when the call has ended.
func (l *launch) forgetProgress() error {
	if err := l.call.Root.Remove(waitingFile(l.call)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startOver decides about a call that was cut off and has no record of its progress. err says why there is none.
func (l *launch) startOver(err error) error {
	switch {
	case l.call.Resume != nil:
		return err
	case l.call.RunID == "":
		return nil
	}
	return fault.Failed(protocol.CodeCutOff, "the call was cut off, and %s cannot go on where it was", l.adapter.Name)
}

// canGoOn reports whether the agent crashed after it made progress.
func (l *launch) canGoOn(err error, o outcome) bool {
	t := o.out.tally
	failed, ok := errors.AsType[*skill.Error](err)
	return ok && failed.Code == codeFailed && o.cause == nil && len(t.Ends) == 0 && t.Turns > 0 && l.adapter.Resumes && l.sessionAfter(o).ID != "" && l.crashes < maxCrashes
}

// goOnAfterCrash makes the next invocation continue the session.
func (l *launch) goOnAfterCrash(r report, o outcome) {
	l.crashes++
	l.prior, l.changed = r.SoFar, r.FilesChanged
	l.session, l.mode, l.prompt = l.sessionAfter(o), modeResume, interruptedPrompt
	l.call.Warn("agent_crashed", l.adapter.Name+" ended without saying how, and goes on in its session")
}
