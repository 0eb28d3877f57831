package forgetest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// limit is a secondary limit of requests, as GitHub has one: after some writes, all are refused for a while.
type limit struct {
	every, left int // writes
	pause       time.Duration
	now         func() time.Time
	until       time.Time
	refused     int
}

// LimitWrites refuses all writes for a pause after each n of them, with the status 429 and the header Retry-After.
func (s *Server) LimitWrites(n int, pause time.Duration, now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = &limit{every: n, left: n, pause: pause, now: now}
}

// Refused returns how many writes were refused because of LimitWrites.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit.refused
}

// refuse reports whether a write is refused, and for how long the next ones are.
func (l *limit) refuse() (time.Duration, bool) {
	if l == nil {
		return 0, false
	}
	now := l.now()
	switch {
	case now.Before(l.until):
	case l.left > 0:
		l.left--
		return 0, false
	default:
		l.until, l.left = now.Add(l.pause), l.every
	}
	l.refused++
	return l.until.Sub(now), true
}

// withLimit applies the limit to requests to the REST interface.
func (s *Server) withLimit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, s.prefix()) {
			next.ServeHTTP(w, r)
			return
		}
		s.mu.Lock()
		wait, refused := s.limit.refuse()
		s.mu.Unlock()
		if !refused {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		writeProblem(w, http.StatusTooManyRequests, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	})
}
