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

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// fault is one request that failed: why, and what a person can do about it.
type fault struct {
	kind, code, message, hint string
	again                     bool          // another request may do better
	after                     time.Duration // but not before
	unasked                   bool          // its turn had not come yet
}

// settingName names a key of the class in the settings.
func (c Class) settingName(key string) string {
	return fmt.Sprintf("%s of [models.%s] in the settings", key, c.Name)
}

// later is the remedy where only time helps.
const later = "lattice rewind --to the node asks again, later"

// connectFault says why there is no connection; said is err in words that may be shown, here and below.
func (c Class) connectFault(said string, err error) *fault {
	f := &fault{kind: ir.FailProvider, code: lattice.ModelUnreachable, again: true, message: fmt.Sprintf("ask %s at %s: %s", c.Model, c.baseURL(), said)}
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
		f.hint = fmt.Sprintf("nobody knows the host %s: correct %s, or the name service of this machine", name.Name, c.settingName("base_url"))
	case errors.As(err, &authority):
		f.again = false
		f.hint = "nobody whom this machine trusts signed the certificate: add its authority to the system's, or name the file in SSL_CERT_FILE"
	case errors.As(err, &cert):
		f.again = false
		f.hint = "the certificate is not good for this address; correct " + c.settingName("base_url") + ", or have the server's renewed"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		f.again = false
		f.hint = "the server speaks no TLS: write http:// in " + c.settingName("base_url")
	case errors.Is(err, syscall.ECONNREFUSED):
		f.hint = "nothing listens there: start the server, or correct " + c.settingName("base_url")
	default:
		f.hint = "look whether the server runs, and at " + c.settingName("base_url") + "; " + later
	}
	return f
}

// unwrapURLError leaves out the method and URL that net/http puts before an error.
func unwrapURLError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// statusFault says what a status other than 200 means; said is the body's explanation.
func (c Class) statusFault(status int, header http.Header, said string, now time.Time) *fault {
	f := &fault{kind: ir.FailProvider, code: lattice.ModelRefused, message: fmt.Sprintf("%s at %s answered %d", c.Model, c.baseURL(), status)}
	if f.after = retryAfter(header.Get("Retry-After"), now); f.after > longRest {
		f.message += fmt.Sprintf(" (to be asked again in %v)", f.after.Round(time.Second))
	}
	if said != "" {
		f.message += ": " + said
	}
	switch {
	case status == http.StatusTooManyRequests:
		f.kind, f.code, f.again = ir.FailRateLimited, lattice.ModelRateLimited, true
		f.hint = "lower requests_per_minute of [llm] in the settings to what the provider grants; " + later
	case status == http.StatusRequestTimeout, status >= 500:
		f.code, f.again = lattice.ModelUnreachable, true
		f.hint = "the server is in trouble; " + later
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.code, f.hint = lattice.ModelDenied, c.keyHint()
		f.message += "; look at the key of this model class in the settings"
	case status == http.StatusProxyAuthRequired:
		f.code, f.hint = lattice.ModelDenied, "the proxy in HTTP_PROXY or HTTPS_PROXY wants a name and a password, as http://NAME:PASSWORD@HOST:PORT"
	case status == http.StatusNotFound:
		f.code, f.hint = lattice.ModelNotFound, "correct "+c.settingName("model or base_url")
		f.message += "; look at model and base_url of this model class in the settings"
	case status >= 300 && status < 400:
		f.hint = "set " + c.settingName("base_url") + " to where it leads"
		f.message += "; redirects are not followed, since the key would go along"
	}
	return f
}

// keyHint says where the key of a class comes from.
func (c Class) keyHint() string {
	if c.KeyFrom == "" {
		return "set " + c.settingName("key_env or key_file")
	}
	return fmt.Sprintf("the key is that of %s, which [models.%s] in the settings names", c.KeyFrom, c.Name)
}

// timeoutFault says that a question took longer than it may: in now, and before that in last, nil when that was the first request.
func (c Class) timeoutFault(limit time.Duration, now, last *fault) *fault {
	if now.unasked && last != nil { // it was resting from the last one that took the time
		f := *last
		f.message += fmt.Sprintf(" (given up after %v)", limit)
		return &f
	}
	f := &fault{
		kind: ir.FailTimeout, code: lattice.ModelTimeout, message: fmt.Sprintf("%s did not answer within %v", c.Model, limit),
		hint: fmt.Sprintf("raise timeout_s of the node, or %s", c.settingName("timeout")),
	}
	if last != nil {
		f.message += "; before that: " + last.message
	}
	return f
}

// idleFault says that nothing came for too long.
func (c Class) idleFault(idle time.Duration) *fault {
	return &fault{
		kind: ir.FailTimeout, code: lattice.ModelTimeout, again: true, message: fmt.Sprintf("%s at %s sent nothing for %v", c.Model, c.baseURL(), idle),
		hint: "look whether the server is well; " + later,
	}
}

// responseFault says that what came is no answer.
func (c Class) responseFault(said string, err error) *fault {
	f := &fault{kind: ir.FailProvider, code: lattice.ModelGarbage, again: true, message: fmt.Sprintf("read the answer of %s: %s", c.Model, said)}
	var told *streamError
	switch {
	case errors.As(err, &told):
		f.code, f.message, f.hint = lattice.ModelUnreachable, fmt.Sprintf("%s broke off: %s", c.Model, said), "the server is in trouble; "+later
	case errors.Is(err, errLong):
		f.again = false
	case errors.Is(err, errDialect):
		f.hint = "look at " + c.settingName("provider and base_url") + ": does that server speak " + string(c.Provider) + " there?"
	default:
		f.code, f.hint = lattice.ModelUnreachable, "the connection is bad, or the server; "+later
	}
	return f
}

// retryAfter reads seconds or a date; what is neither is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
