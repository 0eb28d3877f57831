package sprites

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Requests that are sent again:
//
//	no connection was made          all: no server has seen the request
//	429                             all: refused before it took effect
//	502, 503, 504, a broken         GET, PUT and DELETE, whose repetition changes nothing, and the few POSTs that set a
//	connection, an odd answer       state (request.again); never another POST, and never an exec, which may have taken
//	                                effect
//	all other answers               none: the answer would be the same
//
// A server that names a time (Retry-After) is obeyed as far as the context allows; else pauses double.
const (
	maxAttempts   = 4
	firstPause    = 100 * time.Millisecond
	maxRetryAfter = 2 * time.Minute // a server that wants more gets its refusal passed on
)

// retry runs try until it succeeds, or must not be run again, or ctx ends. It returns the last error of try.
func (c *transport) retry(ctx context.Context, idempotent bool, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || ctx.Err() != nil || attempt == maxAttempts || !repeatable(idempotent, err) {
			return err
		}
		pause := c.pause(attempt, err)
		if deadline, ok := ctx.Deadline(); pause > maxRetryAfter || ok && time.Until(deadline) < pause {
			return err
		}
		if c.o.Wait(ctx, pause) != nil {
			return err
		}
	}
}

// repeatable says whether a request that failed with err may be sent again.
func repeatable(idempotent bool, err error) bool {
	var conn *ConnError
	if errors.As(err, &conn) && !conn.Sent {
		var cert *tls.CertificateVerificationError
		return !errors.As(err, &cert)
	}
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Status == http.StatusTooManyRequests || idempotent && (gateway(api.Status) || api.Status == http.StatusServiceUnavailable)
	}
	return idempotent && (conn != nil || errors.Is(err, errOdd))
}

// gateway reports whether a proxy answers with status if it does not know the outcome of a request.
func gateway(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// pause returns the time to wait after the attempt that failed with err: the time that the server asks for, else exponential
// backoff with jitter of up to a half.
func (c *transport) pause(attempt int, err error) time.Duration {
	if api, ok := errors.AsType[*APIError](err); ok && api.RetryAfter > 0 {
		return api.RetryAfter
	}
	d := firstPause << (attempt - 1)
	if c.o.Jitter != nil {
		d -= time.Duration(c.o.Jitter() * float64(d/2))
	}
	return d
}

func waitByClock(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// retryAfter reads how long a server asks to wait: seconds or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// broken makes a *ConnError of an error of the HTTP client. It leaves out the URL: that of an exec holds its environment.
func (c *transport) broken(err error) error {
	if with, ok := errors.AsType[*url.Error](err); ok {
		err = with.Err
	}
	server := c.base
	if u, parsed := url.Parse(c.base); parsed == nil {
		server = u.Host
	}
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	unsent := errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") || errors.As(err, &cert)
	return &ConnError{Server: server, Sent: !unsent, Err: err}
}
