package host

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// Limits are quotas like those of remote services, for trying how clients take a refusal. Zero values limit nothing.
type Limits struct {
	Creations int           // sprites made per Window
	Window    time.Duration // a minute when 0
	Running   int           // sprites that run at a time; warm ones do not count
}

// limitError is the refusal 429, in the words that clients of the API decide by.
type limitError struct {
	code, message string
	limit, count  int
	window, retry time.Duration // 0 = does not apply
	reset         time.Time     // when there is room again, if that is known
}

func (e *limitError) Error() string { return e.message }

// write answers with what clients read in the body and in the header.
func (e *limitError) write(w http.ResponseWriter) {
	seconds := func(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(e.limit))
	h.Set("X-RateLimit-Remaining", "0")
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(e.retry)))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(e.reset.Unix(), 10))
	}
	writeJSON(w, http.StatusTooManyRequests, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Limit   int    `json:"limit"`
		Window  int    `json:"window_seconds,omitempty"`
		Retry   int    `json:"retry_after_seconds,omitempty"`
		Count   int    `json:"current_count"`
		Upgrade bool   `json:"upgrade_available"`
	}{Error: e.code, Message: e.message, Limit: e.limit, Window: seconds(e.window), Retry: seconds(e.retry), Count: e.count})
}

// limits counts what Limits bounds.
type limits struct {
	of Limits

	mu      boltfile.Lock // guards the fields below
	made    []time.Time   // the last creations, oldest first; at most of.Creations
	running int
}

func newLimits(of Limits) *limits {
	if of.Window <= 0 {
		of.Window = time.Minute
	}
	return &limits{of: of}
}

// create counts a creation, or refuses it.
func (l *limits) create(now time.Time) error {
	if l.of.Creations <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.made) > 0 && now.Sub(l.made[0]) >= l.of.Window {
		l.made = l.made[1:]
	}
	if len(l.made) >= l.of.Creations {
		reset := l.made[0].Add(l.of.Window)
		return &limitError{
			code:    "sprite_creation_rate_limited",
			message: fmt.Sprintf("%d sprites were made within %s, which is the limit of this host; try again later", len(l.made), l.of.Window),
			limit:   l.of.Creations, count: len(l.made), window: l.of.Window, retry: reset.Sub(now), reset: reset,
		}
	}
	l.made = append(l.made, now)
	return nil
}

// full is the refusal to run another sprite, nil when there is room.
func (l *limits) full() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overfull()
}

func (l *limits) overfull() error {
	if l.of.Running <= 0 || l.running < l.of.Running {
		return nil
	}
	return &limitError{
		code:    "concurrent_sprite_limit_exceeded",
		message: fmt.Sprintf("%d sprites are running, which is the limit of this host; wait until one is idle, or remove one", l.running),
		limit:   l.of.Running, count: l.running,
	}
}

// occupy counts a sprite that begins to run, or refuses it.
func (l *limits) occupy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.overfull(); err != nil {
		return err
	}
	l.running++
	return nil
}

// vacate counts a sprite out that runs no more.
func (l *limits) vacate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}
