package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// tally counts what goes on, and wakes whoever waits for that to change. The Leader's mu guards it.
type tally struct {
	n       int
	changed chan struct{} // closed and replaced at each change
}

func (t *tally) add(n int) {
	t.n += n
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

func (t *tally) wait() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// counted serves a request and counts it, so that nobody ends the leadership under it: calls of sprites while they
// last, everything while the leader asks itself whether it idles.
func (l *Leader) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sprites" && r.Method == http.MethodGet {
			next.ServeHTTP(w, r) // not counted: the leader itself looks, while it asks itself that
			return
		}
		of := &l.clients
		if strings.HasPrefix(r.URL.Path, "/v1/sprites/") {
			of = &l.working
		}
		l.count(of, 1)
		defer l.count(of, -1)
		next.ServeHTTP(w, r)
	})
}

func (l *Leader) count(t *tally, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.add(n)
}

// Retire ends the leadership, as far as new work goes, when nothing was driven, timed or asked for during idle. It returns
// ctx's error when that ends first, and nil when somebody else ended the leadership. Close must follow.
func (l *Leader) Retire(ctx context.Context, idle time.Duration) error {
	for {
		l.mu.Lock()
		if l.closing {
			l.mu.Unlock()
			return nil
		}
		work, timed, asked := l.working.wait(), l.timed.wait(), l.clients.wait()
		quiet := l.working.n+l.timed.n+l.clients.n == 0
		l.mu.Unlock()
		// The timer counts the time that the machine was awake: a laptop does not wake up to a leader that has just gone.
		t := time.NewTimer(idle)
		if !quiet {
			t.Stop()
		}
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-l.handed:
		case <-t.C:
			if !l.spritesRun(ctx) && l.retired() {
				return nil
			}
		case <-work:
		case <-timed:
		case <-asked:
		}
		t.Stop()
	}
}

// spritesRun reports whether a command runs in a sprite of the embedded host, with or without anybody attached to it.
func (l *Leader) spritesRun(ctx context.Context) bool {
	if l.host == nil {
		return false
	}
	all, err := l.client.List(ctx, "")
	return err == nil && slices.ContainsFunc(all, func(s sprites.Sprite) bool { return s.Status == "running" })
}

// retired closes the leader to new work if it idles still.
func (l *Leader) retired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.working.n+l.timed.n+l.clients.n > 0 || l.yielding != nil {
		return false
	}
	l.closing = true
	return true
}

// HandOver puts down what is driven, each run when what it began has ended, and ends the leadership. When ctx ends
// before, everything goes on as if nobody had asked.
func (l *Leader) HandOver(ctx context.Context, to api.HandoverRequest) (api.Handover, error) {
	if to.WaitS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(to.WaitS*float64(time.Second)))
		defer cancel()
	}
	left, err := l.putDown(ctx)
	if err != nil {
		return api.Handover{}, err
	}
	l.cfg.Log.Info().Str("to", to.Version).Int("pid", to.PID).Int("runs", len(left)).Msg("handed over")
	close(l.handed)
	return api.Handover{Runs: left}, nil
}

// HandedOver is closed when another process leads next. The leader must then be closed, and its lock given up.
func (l *Leader) HandedOver() <-chan struct{} { return l.handed }

// Leave is HandOver for a process whose own work is done: it returns the runs that somebody has to go on with. What does
// not come to rest before ctx ends is cut off.
func (l *Leader) Leave(ctx context.Context) []api.HandedRun {
	select {
	case <-l.handed: // with all that it drove
		return nil
	default:
	}
	l.mu.Lock()
	left := l.unfollowed()
	l.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	if rested, err := l.putDown(ctx); err == nil {
		return rested
	}
	return left
}

// putDown brings every drive to rest and closes the leader to new work, or changes nothing.
func (l *Leader) putDown(ctx context.Context) ([]api.HandedRun, error) {
	l.mu.Lock()
	switch {
	case l.closing:
		l.mu.Unlock()
		return nil, errClosing
	case l.yielding != nil:
		l.mu.Unlock()
		return nil, fault.Busy("handing_over", "another lattice is taking the lead already").WithHint("try again")
	}
	l.yielding = make(chan struct{})
	left := l.unfollowed()
	for _, r := range l.runs {
		if r.done != nil {
			r.runner.Yield()
		}
	}
	l.mu.Unlock()

	err := l.rested(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.yielding)
	l.yielding = nil
	if err == nil {
		l.closing = true
		for id := range l.changed {
			l.notify(id)
		}
		return left, nil
	}
	for id, r := range l.runs {
		if r.yielded && !l.closing {
			l.start(id, r)
		}
	}
	return nil, err
}

// rested waits until nothing is driven and no sprite is used.
func (l *Leader) rested(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy, changed := l.working.n, l.working.wait()
		doing := l.doing()
		l.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-l.ending:
			return errClosing
		case <-ctx.Done():
			return fault.Busy("leader_busy", "the leading lattice did not come to rest: %s", doing).WithHint("try again when that is done")
		}
	}
}

// doing says for people what goes on. mu is held.
func (l *Leader) doing() string {
	var runs []string
	for id, r := range l.runs {
		if r.done != nil {
			runs = append(runs, fmt.Sprintf("%s is at %s", id, r.runner.State().Node))
		}
	}
	if len(runs) == 0 {
		return "somebody uses a sprite"
	}
	slices.Sort(runs)
	return strings.Join(runs, ", ")
}

// unfollowed are the runs that go on without anybody who would take them to the next leader. mu is held.
func (l *Leader) unfollowed() []api.HandedRun {
	var left []api.HandedRun
	for id, r := range l.runs {
		if (r.done != nil || r.timed > 0) && (l.cfg.Serving || r.detached) {
			left = append(left, api.HandedRun{RunID: id, Values: api.Values{Secrets: pairs(l.secrets[id]), ModelKeys: l.models.kept()}})
		}
	}
	slices.SortFunc(left, func(a, b api.HandedRun) int { return strings.Compare(a.RunID, b.RunID) })
	return left
}

func pairs(env []string) map[string]string {
	out := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		out[name] = value
	}
	return out
}

// settle waits while a hand-over is being tried. It fails when the leader is ending.
func (l *Leader) settle(ctx context.Context) error {
	for {
		l.mu.Lock()
		closing, yielding := l.closing, l.yielding
		l.mu.Unlock()
		switch {
		case closing:
			return errClosing
		case yielding == nil:
			return nil
		}
		select {
		case <-yielding:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closingNow reports whether err only says that this leader is ending.
func closingNow(err error) bool { return errors.Is(err, errClosing) }
