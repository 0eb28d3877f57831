package rest

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// pace lets one write at a time through, with a gap after each, and holds every call back while a limit of requests lasts.
type pace struct {
	writer chan struct{} // holds a token while nothing is written

	mu    sync.Mutex
	wrote time.Time // the end of the last write
	until time.Time // the end of the limit
}

func newPace() *pace {
	p := &pace{writer: make(chan struct{}, 1)}
	p.writer <- struct{}{}
	return p
}

// beginWrite waits for its turn to write. The caller calls release when the write has ended.
func (p *pace) beginWrite(ctx context.Context, o Options) (release func(), err error) {
	select {
	case <-p.writer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	wait := p.wrote.Add(o.Gap).Sub(o.Now())
	p.mu.Unlock()
	if wait > 0 {
		if err := o.Sleep(ctx, wait); err != nil {
			p.writer <- struct{}{}
			return nil, err
		}
	}
	return func() {
		p.mu.Lock()
		p.wrote = o.Now()
		p.mu.Unlock()
		p.writer <- struct{}{}
	}, nil
}

// awaitLimit waits for the end of a limit, or fails at once if that is too far away.
func (p *pace) awaitLimit(ctx context.Context, o Options) error {
	p.mu.Lock()
	until := p.until
	p.mu.Unlock()
	wait := until.Sub(o.Now())
	switch {
	case wait <= 0:
		return nil
	case wait > maxPatience:
		return &forge.Problem{Status: http.StatusTooManyRequests, Message: "lattice made too many requests; the limit ends at " + until.UTC().Format(time.RFC3339), Retry: until}
	}
	return o.Sleep(ctx, wait)
}

func (p *pace) stopUntil(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.After(p.until) {
		p.until = t
	}
}

// limitOf returns the end of the limit because of which a request was refused, zero if there is none. GitHub tells a
// secondary limit by Retry-After and the primary one by the headers about the rest; both with status 403 or 429.
func limitOf(res *http.Response, now time.Time) time.Time {
	if res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusTooManyRequests {
		return time.Time{}
	}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s >= 0 {
		return now.Add(time.Duration(min(s, 24*3600)) * time.Second)
	}
	if res.Header.Get("X-RateLimit-Remaining") == "0" {
		if at, err := strconv.ParseInt(res.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			return time.Unix(at, 0)
		}
	}
	if res.StatusCode == http.StatusTooManyRequests {
		return now.Add(time.Minute)
	}
	return time.Time{}
}
