package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/agent/reset"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// At a usage limit of the model's provider the call pauses (WAITING with resume_at) and goes on by itself:
//
//	agent fails with agent_rate_limited ─► reset.Find: until when? ─► pending record ─► checkpoint, WAITING
//	that time, or a person's approval   ─► the agent's session goes on; without an answer of the model it starts again
//
// A person's rejection fails the call at once.

// usageLimit is the limit that a call waits for.
type usageLimit struct {
	Message string `json:"message"`
	Pauses  int    `json:"pauses"` // this one included, since the model last answered
}

// pauseUntil returns when the agent may go on, if err is the end of an invocation at a usage limit.
func (l *launch) pauseUntil(err error, o outcome, now time.Time) (time.Time, bool) {
	failed, ok := errors.AsType[*skill.Error](err)
	if !ok || failed.Code != codeLimited || l.in.UsageLimit == usageLimitFails {
		return time.Time{}, false
	}
	t := o.out.tally
	if t.Turns > 0 {
		l.pauses = 0
	}
	at, known := time.Unix(int64(t.ResetsAt), 0), t.ResetsAt > 0
	if !known {
		words := append([]string{failed.Message}, t.Errors...)
		at, known = reset.Find(strings.Join(append(words, o.stderr), "\n"), now)
	}
	if !known || at.After(now.Add(longestPause)) {
		return now.Add(firstGuess << l.pauses), l.pauses < maxGuessed
	}
	if least := now.Add(time.Second << min(l.pauses, 16)); at.Before(least) { // an agent cannot keep the run busy
		at = least
	}
	return at, true
}

// pause has the call wait until the limit has ended.
func (l *launch) pause(ctx context.Context, r report, o outcome, until time.Time) error {
	reason := l.adapter.Name + " reached a usage limit"
	p := progress{l}.newPending(r, o)
	p.Limit = &usageLimit{Message: reason, Pauses: l.pauses + 1}
	if len(r.Errors) > 0 {
		reason += ": " + cleanLine(l.secrets.Text(r.Errors[len(r.Errors)-1]))
	}
	if r.Turns == 0 {
		p.Session, p.Said = session{}, l.former
	}
	if err := p.save(l.call); err != nil {
		return err
	}
	return l.call.SuspendUntil(ctx, reason, until)
}

// endPause returns the prompt with which the session goes on after a pause, or an error if a person ended the pause with a
// rejection.
func (l *launch) endPause(limit usageLimit) (prompt string, err error) {
	var in struct {
		Approved *bool  `json:"approved"`
		Comments string `json:"comments"`
	}
	if err := l.call.Inputs(&in); err != nil {
		return "", err
	}
	if in.Approved != nil && !*in.Approved {
		e := fault.Failed(codeLimited, "%s, and a person decided not to wait for its end", limit.Message)
		if in.Comments != "" {
			e.Message += ": " + in.Comments
		}
		return "", e
	}
	l.pauses = limit.Pauses
	return limit.Message + ", which has ended. Go on with your task.\n", nil
}
