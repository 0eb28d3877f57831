package intents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Follow creates intents when they are due, until ctx ends. It looks at least once a minute, because clocks can be set, and
// more often while the run of a check goes on.
func (s *Scheduler) Follow(ctx context.Context) {
	for len(s.All) > 0 {
		now := s.now()
		wait := now.Truncate(time.Minute).Add(time.Minute).Sub(now)
		for _, name := range slices.Sorted(maps.Keys(s.All)) {
			_, err := s.Tick(ctx, name)
			if err != nil && ctx.Err() == nil {
				s.Logger.Error().Err(err).Str("schedule", name).Msg("create the intent of a schedule")
			}
			running, err := s.FollowUp(ctx, name)
			if err != nil && ctx.Err() == nil {
				s.Logger.Error().Err(err).Str("schedule", name).Msg("follow the check of a schedule")
			}
			if running {
				wait = min(wait, checkPause)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.Wake:
			timer.Stop()
		}
	}
}

// Tick creates the intent of a schedule if one is due: of several times that passed, one for the last. A schedule that is new, or
// has other times than before, begins now.
func (s *Scheduler) Tick(ctx context.Context, name string) (created string, err error) {
	c, now := s.All[name], s.now()
	last, seq, err := s.loadLast(name)
	if err != nil || c.Text == "" {
		return "", err
	}
	if seq == 0 || last.Cron != c.Text {
		last.Cron, last.Until, last.Reason = c.Text, now, ""
		return "", s.appendEntry(ctx, name, seq, last)
	}
	due, ok := lastDue(c, last.Until, now)
	if !ok {
		return "", nil
	}
	last.Until, last.Reason = due, ""
	if c.Severity == "" && last.Created != nil && due.Sub(*last.Created) < c.Cooldown {
		last.Reason = fmt.Sprintf("the cooldown of %s has not passed", c.Cooldown)
		return "", s.appendEntry(ctx, name, seq, last)
	}
	r := c.Request
	r.Key = fmt.Sprintf("schedule/%s/%s", name, due.UTC().Format(time.RFC3339))
	state, err := s.Create(ctx, r)
	refused := fault.As(err)
	switch {
	case err == nil:
		last.Intent, last.Created, created = state.ID, &due, state.ID
	case refused == nil || refused.Retryable:
		return "", err // the due time stays open
	default:
		last.Reason = refused.Message
	}
	return created, errors.Join(err, s.appendEntry(ctx, name, seq, last))
}

// lastDue returns the last due time after one and until another.
func lastDue(c Schedule, after, until time.Time) (due time.Time, ok bool) {
	// Of a long time away only the end is searched: a schedule that was due in it was due in the last year, or is rare.
	for _, back := range []time.Duration{2 * time.Hour, 50 * time.Hour, 400 * 24 * time.Hour, until.Sub(after)} {
		from := until.Add(-back)
		if from.Before(after) {
			from = after
		}
		for t, more := c.Cron.Next(from.In(c.Zone)); more && !t.After(until); t, more = c.Cron.Next(t) {
			due, ok = t, true
		}
		if ok || from.Equal(after) {
			break
		}
	}
	return due, ok
}

// Schedules lists the schedules by name.
func (s *Scheduler) Schedules(context.Context) ([]api.ScheduleView, error) {
	views := []api.ScheduleView{}
	for _, name := range slices.Sorted(maps.Keys(s.All)) {
		c := s.All[name]
		last, seq, err := s.loadLast(name)
		if err != nil {
			return nil, err
		}
		v := api.ScheduleView{Name: name, Cron: c.Text, OnPush: c.OnPush, Zone: c.Zone.String(), Kind: c.Request.Kind, Repo: c.Request.Repo, LastIntent: last.Intent, LastDue: last.Created, Reason: last.Reason,
			Severity: c.Severity, Health: last.Health, Remedy: last.Remedy, Note: last.Note}
		if due, ok := c.Cron.Next(s.now().In(c.Zone)); ok && c.Text != "" {
			v.Next = &due
		}
		v.Known = seq > 0 && last.Cron == c.Text
		views = append(views, v)
	}
	return views, nil
}

// RunSchedule creates the intent of a schedule now. The same key creates it once.
func (s *Scheduler) RunSchedule(ctx context.Context, name, key string) (intent.State, error) {
	c, ok := s.All[name]
	if !ok {
		return intent.State{}, fault.NotFound("schedule_not_found", "the settings of the leader have no schedule %q", name).WithHint("lattice schedule ls")
	}
	r := c.Request
	r.Key = "schedule/" + name + "/" + cmp.Or(key, s.now().UTC().Format(time.RFC3339Nano))
	state, err := s.Create(ctx, r)
	if err != nil || c.Severity == "" {
		return state, err
	}
	last, seq, err := s.loadLast(name)
	if err != nil || last.Intent == state.ID {
		return state, err
	}
	if seq == 0 {
		last.Cron, last.Until = c.Text, s.now()
	}
	last.Intent, last.Reason = state.ID, "" // so that its outcome is followed
	if err := s.appendEntry(ctx, name, seq, last); err != nil {
		return state, err
	}
	select {
	case s.Wake <- struct{}{}:
	default: // nothing follows, or it is awake
	}
	return state, nil
}

// RunPushed creates the intents of the schedules that follow pushes to a repository. The same commit creates each once. follows
// reports whether the push is one to the default branch of a repository.
func (s *Scheduler) RunPushed(ctx context.Context, commit string, follows func(repo string) (bool, error)) (created []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.All)) {
		c := s.All[name]
		if !c.OnPush {
			continue
		}
		ok, err := follows(c.Request.Repo)
		if err != nil {
			return created, err
		}
		if !ok {
			continue
		}
		state, err := s.RunSchedule(ctx, name, "push/"+commit)
		if err != nil {
			return created, fmt.Errorf("create the intent of the schedule %s: %w", name, err)
		}
		created = append(created, state.ID)
	}
	return created, nil
}
