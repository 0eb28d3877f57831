package drive

import (
	"net/http"
	"strings"
	"sync"
)

// Activity counts the work in progress, so that the leadership does not end under it. It is safe for concurrent use.
type Activity struct {
	mu      sync.Mutex
	working tally // guarded by mu, as all below: drives, and requests that use sprites
	timed   tally // waits with a timer
	clients tally // all other requests
}

// tally is a counter whose changes can be waited for.
type tally struct {
	n       int
	changed chan struct{} // closed and removed at each change
}

func (t *tally) wait() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// add adds n to one of the tallies of a.
func (a *Activity) add(t *tally, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.n += n
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// isIdle reports whether there is no activity, and returns channels of which one is closed when that changes.
func (a *Activity) isIdle() (idle bool, changed [3]<-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.working.n+a.timed.n+a.clients.n == 0, [3]<-chan struct{}{a.working.wait(), a.timed.wait(), a.clients.wait()}
}

// isAtRest reports whether nothing is driven and no sprite is used; changed is closed when that changes.
func (a *Activity) isAtRest() (rest bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.working.n == 0, a.working.wait()
}

// CountRequests counts the requests that next serves.
func (a *Activity) CountRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sprites" && r.Method == http.MethodGet {
			next.ServeHTTP(w, r) // not counted: the leader itself sends it before it retires
			return
		}
		of := &a.clients
		if strings.HasPrefix(r.URL.Path, "/v1/sprites/") {
			of = &a.working
		}
		a.add(of, 1)
		defer a.add(of, -1)
		next.ServeHTTP(w, r)
	})
}
