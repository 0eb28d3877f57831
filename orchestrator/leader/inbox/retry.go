package inbox

import "time"

// retry says when something that failed is tried again.
type retry struct {
	failures int // in a row
	due      time.Time
}

// retries are the threads of a code host whose next delivery failed, by name. The name wholeHost stands for the log itself.
type retries map[string]retry

const wholeHost = ""

// note records the outcome of an attempt and returns the time until the next one.
func (r retries) note(thread string, err error, now time.Time) time.Duration {
	if err == nil {
		delete(r, thread)
		return 0
	}
	n := r[thread].failures
	delay := min(firstDelay<<min(n, 20), maxDelay)
	r[thread] = retry{failures: n + 1, due: now.Add(delay)}
	return delay
}

func (r retries) isDue(thread string, now time.Time) bool { return !now.Before(r[thread].due) }

// untilNext returns the time until the first of them is due, at most maxDelay. No thread is looked at before wholeHost is due.
func (r retries) untilNext(now time.Time) time.Duration {
	if host, ok := r[wholeHost]; ok {
		return max(0, host.due.Sub(now))
	}
	wait := maxDelay
	for _, t := range r {
		wait = min(wait, max(0, t.due.Sub(now)))
	}
	return wait
}
