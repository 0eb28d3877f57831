package intents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A schedule with a severity closes the loop "unhealthy, detect, fix" of seed 001: its check is an intent like others, and a
// check that fails leads to a second intent, which repairs. The kind of the first says when and with which input
// (manifests.Then); the settings say how urgent it is.

// Health of the last check.
const (
	healthy = "healthy"
	failing = "failing"
	unknown = "unknown" // the check did not run to its end
)

// checkPause is the time between two looks at the run of a check.
const checkPause = time.Second

// FollowUp records the outcome of the last check of a schedule, once its run has ended, and creates the intent that follows.
// A check has one remedy, also after a crash: its key is derived from the check. running says that the run goes on.
func (s *Scheduler) FollowUp(ctx context.Context, name string) (running bool, err error) {
	c := s.All[name]
	then := manifests.Intents()[c.Request.Kind].Then
	if c.Severity == "" || then == nil {
		return false, nil
	}
	last, seq, err := s.loadLast(name)
	if err != nil || last.Intent == "" || last.Checked == last.Intent {
		return false, err
	}
	check, output, err := s.Outcome(ctx, last.Intent)
	if err != nil || !check.Status.Ended() {
		return err == nil && check.Run != "", err
	}
	last.Checked, last.Health, last.Note = last.Intent, unknown, check.Reason
	if check.Status == intent.Succeeded {
		fails, input, err := evalThen(*then, output)
		switch {
		case err != nil:
			last.Note = err.Error()
		case fails:
			last.Health = cmp.Or(then.Health, failing)
			if err := s.createRemedy(ctx, name, *then, input, &last); err != nil {
				return false, err
			}
		default:
			last.Health = healthy
		}
	}
	return false, s.appendEntry(ctx, name, seq, last)
}

// createRemedy creates the intent that repairs, unless one is open, was created a short time ago, or the severity is low.
func (s *Scheduler) createRemedy(ctx context.Context, name string, then manifests.Then, input map[string]any, last *scheduleEntry) error {
	c, now := s.All[name], s.now()
	if !c.Repairs {
		last.Note = fmt.Sprintf("the severity is %s: no remedy", c.Severity)
		return nil
	}
	if last.Remedy != "" {
		before, _, err := s.Outcome(ctx, last.Remedy)
		if err != nil {
			return err
		}
		if !before.Status.Ended() {
			last.Note = fmt.Sprintf("%s is %s", last.Remedy, before.Status)
			return nil
		}
	}
	if last.Remedied != nil && now.Sub(*last.Remedied) < c.Cooldown {
		last.Note = fmt.Sprintf("the cooldown of %s has not passed since %s", c.Cooldown, last.Remedy)
		return nil
	}
	r, err := remedyRequest(c, then, input)
	if err != nil {
		return err
	}
	r.Key = "remedy/" + last.Intent
	state, err := s.Create(ctx, r)
	refused := fault.As(err)
	switch {
	case err == nil:
		last.Remedy, last.Remedied = state.ID, &now
	case refused == nil || refused.Retryable:
		return err // the outcome stays open
	default:
		last.Note = refused.Message
	}
	return nil
}

// remedyRequest returns the request for the intent that repairs. The settings come before the table.
func remedyRequest(c Schedule, then manifests.Then, input map[string]any) (api.IntentRequest, error) {
	r := c.Remedy
	if len(r.Input) > 0 {
		own, err := expr.Decode(r.Input)
		members, ok := own.(map[string]any)
		if err != nil || !ok {
			return r, errors.Join(errors.New("the remedy of the settings is not an object"), err)
		}
		maps.Copy(input, members)
	}
	raw, err := json.Marshal(input)
	r.Kind, r.Subject, r.Signal, r.Repo, r.Input = cmp.Or(r.Kind, then.Kind), c.Request.Subject, c.Request.Signal, c.Request.Repo, raw
	r.Urgent = c.Urgent
	return r, err
}

// evalThen reports whether the output of a check calls for an intent, and returns the input of that.
func evalThen(then manifests.Then, output json.RawMessage) (fails bool, input map[string]any, err error) {
	out, err := expr.Decode(output)
	if err != nil {
		return false, nil, fmt.Errorf("read the output of the check: %w", err)
	}
	var when expr.Cond
	if err := json.Unmarshal(then.When, &when); err != nil {
		return false, nil, err
	}
	scope := expr.Scope{Out: out}
	fails, failure := when.True(scope)
	if failure != nil {
		return false, nil, failure
	}
	if !fails {
		return false, nil, nil
	}
	input = map[string]any{}
	for name, expression := range then.Input {
		value, failure := expr.Eval(expression, scope)
		if failure != nil {
			return false, nil, failure
		}
		input[name] = value
	}
	return true, input, nil
}
