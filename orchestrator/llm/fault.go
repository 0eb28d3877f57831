package llm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// fault is a failed attempt: its kind, a message and a hint.
type fault struct {
	kind, code, message, hint string
	again                     bool          // temporary: try again
	after                     time.Duration // minimum delay before the next attempt
	unasked                   bool          // failed before the request was sent
}

// settingName names a key of the class in the settings.
func (c Class) settingName(key string) string {
	return fmt.Sprintf("%s of [models.%s] in the settings", key, c.Name)
}

// later is the hint for failures that only time can repair.
const later = "try again later with lattice rewind --to NODE"

// connectFault describes a failed connection. said is the redacted text of err, here and below.
func (c Class) connectFault(said string, err error) *fault {
	f := &fault{kind: expr.FailProvider, code: lattice.ModelUnreachable, again: true, message: fmt.Sprintf("ask %s at %s: %s", c.Model, c.baseURL(), said)}
	var (
		name      *net.DNSError
		authority x509.UnknownAuthorityError
		cert      *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		f.hint = "HTTPS_PROXY and HTTP_PROXY name a proxy that does not answer; correct them, or list the host in NO_PROXY"
	case errors.As(err, &name):
		f.again = !name.IsNotFound
		f.hint = fmt.Sprintf("the host %s is unknown: correct %s, or the DNS settings of this machine", name.Name, c.settingName("base_url"))
	case errors.As(err, &authority):
		f.again = false
		f.hint = "the certificate is signed by an unknown authority: add the authority to the system's, or set SSL_CERT_FILE"
	case errors.As(err, &cert):
		f.again = false
		f.hint = "the certificate is not valid for this address; correct " + c.settingName("base_url") + ", or renew the certificate"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		f.again = false
		f.hint = "the server does not use TLS: write http:// in " + c.settingName("base_url")
	case errors.Is(err, syscall.ECONNREFUSED):
		f.hint = "nothing listens there: start the server, or correct " + c.settingName("base_url")
	default:
		f.hint = "check that the server is running, and check " + c.settingName("base_url") + "; " + later
	}
	return f
}

// unwrapURLError leaves out the method and URL that net/http puts before an error.
func unwrapURLError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// statusFault describes a response with a status other than 200; said is the message in its body.
func (c Class) statusFault(status int, header http.Header, said string, now time.Time) *fault {
	f := &fault{kind: expr.FailProvider, code: lattice.ModelRefused, message: fmt.Sprintf("%s at %s answered %d", c.Model, c.baseURL(), status)}
	if f.after = retryAfter(header.Get("Retry-After"), now); f.after > longRest {
		f.message += fmt.Sprintf(" (retry after %v)", f.after.Round(time.Second))
	}
	if said != "" {
		f.message += ": " + said
	}
	switch {
	case status == http.StatusTooManyRequests:
		f.kind, f.code, f.again = expr.FailRateLimited, lattice.ModelRateLimited, true
		f.hint = "lower requests_per_minute of [llm] in the settings to the limit of the provider; " + later
	case status == http.StatusRequestTimeout, status >= 500:
		f.code, f.again = lattice.ModelUnreachable, true
		f.hint = "the server has a problem; " + later
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.code, f.hint = lattice.ModelDenied, c.keyHint()
		f.message += "; check the key of this model class in the settings"
	case status == http.StatusProxyAuthRequired:
		f.code, f.hint = lattice.ModelDenied, "the proxy in HTTP_PROXY or HTTPS_PROXY requires credentials: http://NAME:PASSWORD@HOST:PORT"
	case status == http.StatusNotFound:
		f.code, f.hint = lattice.ModelNotFound, "correct "+c.settingName("model or base_url")
		f.message += "; check model and base_url of this model class in the settings"
	case status >= 300 && status < 400:
		f.hint = "set " + c.settingName("base_url") + " to the target of the redirect"
		f.message += "; redirects are not followed, because they would send the key elsewhere"
	}
	return f
}

// keyHint names the source of the key of a class.
func (c Class) keyHint() string {
	if c.KeyFrom == "" {
		return "set " + c.settingName("key_env or key_file")
	}
	return fmt.Sprintf("the key is read from %s, as set in [models.%s] of the settings", c.KeyFrom, c.Name)
}

// timeoutFault describes a request that exceeded its timeout during attempt now, after attempt last, nil if now is the
// first one.
func (c Class) timeoutFault(limit time.Duration, now, last *fault) *fault {
	if now.unasked && last != nil { // the timeout expired during the backoff after last
		f := *last
		f.message += fmt.Sprintf(" (given up after %v)", limit)
		return &f
	}
	f := &fault{
		kind: expr.FailTimeout, code: lattice.ModelTimeout, message: fmt.Sprintf("%s did not answer within %v", c.Model, limit),
		hint: fmt.Sprintf("raise timeout_s of the node, or %s", c.settingName("timeout")),
	}
	if last != nil {
		f.message += "; before that: " + last.message
	}
	return f
}

// idleFault describes a response that stopped for too long.
func (c Class) idleFault(idle time.Duration) *fault {
	return &fault{
		kind: expr.FailTimeout, code: lattice.ModelTimeout, again: true, message: fmt.Sprintf("%s at %s sent nothing for %v", c.Model, c.baseURL(), idle),
		hint: "check the server; " + later,
	}
}

// responseFault describes a malformed response.
func (c Class) responseFault(said string, err error) *fault {
	f := &fault{kind: expr.FailProvider, code: lattice.ModelGarbage, again: true, message: fmt.Sprintf("read the answer of %s: %s", c.Model, said)}
	var told *streamError
	switch {
	case errors.As(err, &told):
		f.code, f.message, f.hint = lattice.ModelUnreachable, fmt.Sprintf("%s broke off: %s", c.Model, said), "the server has a problem; "+later
	case errors.Is(err, errLong):
		f.again = false
	case errors.Is(err, errDialect):
		f.hint = "check " + c.settingName("provider and base_url") + ": the server must offer the API of " + string(c.Provider) + " there"
	default:
		f.code, f.hint = lattice.ModelUnreachable, "the connection failed; "+later
	}
	return f
}

// retryAfter parses a Retry-After header, in seconds or as a date; it returns 0 if it is malformed.
func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
