package sprites

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/backoff"
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
	maxRetryAfter = 2 * time.Minute // a server that wants more gets its refusal passed on
)

// retrySafely runs try until it succeeds, or must not be run again, or ctx ends. It returns the last error of try.
func (c *transport) retrySafely(ctx context.Context, idempotent bool, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || ctx.Err() != nil || attempt == maxAttempts || !isRepeatable(idempotent, err) {
			return err
		}
		pause := c.retryDelay(attempt, err)
		if deadline, ok := ctx.Deadline(); pause > maxRetryAfter || ok && time.Until(deadline) < pause {
			return err
		}
		if c.o.Wait(ctx, pause) != nil {
			return err
		}
	}
}

// isRepeatable says whether a request that failed with err may be sent again.
func isRepeatable(idempotent bool, err error) bool {
	var conn *ConnError
	if errors.As(err, &conn) && !conn.Sent {
		var cert *tls.CertificateVerificationError
		return !errors.As(err, &cert)
	}
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Status == http.StatusTooManyRequests || idempotent && (isGatewayStatus(api.Status) || api.Status == http.StatusServiceUnavailable)
	}
	return idempotent && (conn != nil || errors.Is(err, errOdd))
}

// isGatewayStatus reports whether a proxy answers with status if it does not know the outcome of a request.
func isGatewayStatus(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// retryDelay returns the time to wait after the attempt that failed with err: the time that the server asks for, else exponential
// backoff with jitter of up to a half.
func (c *transport) retryDelay(attempt int, err error) time.Duration {
	if api, ok := errors.AsType[*APIError](err); ok && api.RetryAfter > 0 {
		return api.RetryAfter
	}
	return backoff.Pause(attempt, c.o.Jitter)
}

// connError makes a *ConnError of an error of the HTTP client. It leaves out the URL: that of an exec holds its environment.
func (c *transport) connError(err error) error {
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
