package scribe

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

const (
	// statusPause is the least time between two edits of the status of a run that works: code hosts limit writes.
	statusPause = 15 * time.Second
	// retryPause is the time after a first failure, and mostPause after several.
	retryPause = 10 * time.Second
	mostPause  = 2 * time.Minute
	// checkPause is the time between two looks at the checks of a pull request. Webhooks cause further looks, but one may be lost.
	checkPause = 15 * time.Minute
)

// pauseAfter returns the time until the next try of a thread that failed several times in a row, the last time with err. If the code host
// refuses, as for a deleted or locked issue, the time is that of checks: all threads share its limit of requests.
func pauseAfter(err error, failures int) time.Duration {
	most := mostPause
	if refused, ok := errors.AsType[*forge.Problem](err); ok && refused.Final() {
		most = checkPause
	}
	return min(retryPause<<min(failures-1, 10), most)
}

// Follow shows runs as they change, until ctx ends. A thread is due at once when its run rests, else after a pause.
func (s *Scribe) Follow(ctx context.Context) {
	if len(s.Hosts) == 0 {
		return
	}
	s.wakeGated(ctx)
	changed, ended := make(chan api.RunView), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := s.Runs.Updates(ctx, 0, func(v api.RunView) error {
				select {
				case changed <- v:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err == nil { // the leader ends
				return
			}
			if ctx.Err() == nil {
				s.Logger.Error().Err(err).Msg("look at the runs of threads")
			}
			sleep(ctx, retryPause)
		}
	}()
	defer func() { <-ended }()
	due, last, failures := map[thread.Thread]time.Time{}, map[thread.Thread]time.Time{}, map[thread.Thread]int{} // in a row
	for {
		pause := time.Hour
		for t, at := range due {
			if wait := time.Until(at); wait > 0 {
				pause = min(pause, wait)
				continue
			}
			delete(due, t)
			last[t] = time.Now()
			err := s.Show(ctx, t)
			if err == nil {
				delete(failures, t)
			}
			if err != nil && ctx.Err() == nil {
				s.Logger.Warn().Err(err).Stringer("thread", t).Msg("show the runs of a thread")
				failures[t]++
				due[t] = time.Now().Add(pauseAfter(err, failures[t]))
			} else if s.woken.awaiting()[t] != "" {
				due[t] = time.Now().Add(cmp.Or(s.Hosts[t.Host].Poll, checkPause))
			}
			if at, again := due[t]; again {
				pause = min(pause, time.Until(at))
			}
		}
		select {
		case <-ctx.Done():
			return
		case v := <-changed:
			threads, _, err := findThreads(s.Facts, v)
			if err != nil {
				s.Logger.Error().Err(err).Str("run_id", v.RunID).Msg("look for the threads of a run")
			}
			for _, t := range threads {
				if _, known := s.Hosts[t.Host]; !known {
					continue
				}
				at := last[t].Add(statusPause)
				if v.Status.Ended() || len(v.Waits) > 0 {
					at = time.Now()
				}
				if before, waits := due[t]; !waits || at.Before(before) {
					due[t] = at
				}
			}
		case <-s.woken.bell():
			for t := range s.woken.take() {
				due[t] = time.Now()
			}
		case <-time.After(pause):
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// WakeCommit has Follow look at the pull requests whose review at a commit runs wait for: a check of the CI has ended. After a crash, Follow
// looks at all threads with runs.
func (s *Scribe) WakeCommit(host string, p forge.Path, head string) (outcome string) {
	outcome = "nothing to do: no run waits for a review of the commit"
	for t, awaited := range s.woken.awaiting() {
		if t.Host == host && t.Repo.Equal(p) && awaited == head {
			s.woken.add(t)
			outcome = "the checks are looked at"
		}
	}
	return outcome
}

// Wake has Follow show a thread soon, if subject names one: an intent about it begins or ends to wait for people.
func (s *Scribe) Wake(subject string) {
	if t, ok := thread.Parse(subject); ok && s.Hosts[t.Host].Client != nil {
		s.woken.add(t)
	}
}

// gatedLooked bounds the intents that are looked at when a process begins, the newest ones.
const gatedLooked = 200

// wakeGated wakes the threads of intents that wait when this process begins: a crash may have kept it from asking.
func (s *Scribe) wakeGated(ctx context.Context) {
	all, err := s.Runs.Intents(ctx, "", gatedLooked)
	if err != nil && ctx.Err() == nil {
		s.Logger.Error().Err(err).Msg("look at the intents of threads")
	}
	for _, one := range all {
		if one.Status == intent.Gated {
			s.Wake(one.Subject)
		}
	}
}
