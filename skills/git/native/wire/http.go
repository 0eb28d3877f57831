package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/httpenv"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// dial returns go-git's client for a remote over HTTP, and how it names the remote.
func dial(to engine.Source) (transport.Transport, *transport.Endpoint, error) {
	if to.Protocol != "http" && to.Protocol != "https" {
		return nil, nil, fault.Unsupported("unsupported", "the native engine does not speak %s", to.Protocol).
			WithHint("use an image with git, an https URL, or a bundle that was made outside")
	}
	base, err := url.Parse(to.URL)
	if err != nil || base.Host == "" || base.Scheme != to.Protocol {
		return nil, nil, engine.NotRepositoryURL("that is not a URL for %s", to.Protocol)
	}
	base.User, base.RawQuery, base.Fragment = nil, "", ""
	at, err := transport.NewEndpoint(base.String())
	if err != nil {
		return nil, nil, engine.NotRepositoryURL("%s is not a URL that go-git takes", base)
	}
	env := httpenv.Parse(to.Env)
	trust, err := env.Roots("GIT_SSL_CAINFO", "SSL_CERT_FILE")
	if err != nil {
		return nil, nil, err
	}
	proxy := env.Proxy()
	b := &boundTransport{origin: originOf(base), http: &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust},
		ResponseHeaderTimeout: headerLimit, TLSHandshakeTimeout: headerLimit, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: headerLimit}).DialContext,
	}}
	if c := to.Credential; c != nil {
		b.username, b.token = c.Username, c.Token
	}
	client := &http.Client{Transport: b, CheckRedirect: checkRedirect}
	return githttp.NewClientWithOptions(client, &githttp.ClientOptions{RedirectPolicy: githttp.FollowInitialRedirects}), at, nil
}

// headerLimit is how long a remote may take to begin its answer.
const headerLimit = time.Minute

// checkRedirect refuses a redirect to a place that is less protected, in addition to go-git's own rules.
func checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	if req.URL.Scheme != "https" && originOf(req.URL) != originOf(last) {
		return fmt.Errorf("it redirects to %s, which is not protected as %s is", originOf(req.URL), originOf(last))
	}
	return nil
}

// originOf returns scheme, host and port, the port always named.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// boundTransport sends the credential to one origin, regardless of redirects, and bounds answers that are held in memory.
type boundTransport struct {
	http            *http.Transport
	origin          string
	username, token string
}

// The bounds of answers that are not packs, in bytes.
const (
	maxAdvertised = 64 << 20
	maxRefusal    = 64 << 10
)

func (b *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if b.token != "" && originOf(req.URL) == b.origin {
		req.SetBasicAuth(b.username, b.token)
	}
	resp, err := b.http.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	most := int64(0)
	switch {
	case resp.StatusCode != http.StatusOK:
		most = maxRefusal
	case req.Method == http.MethodGet:
		most = maxAdvertised
		if kind := resp.Header.Get("Content-Type"); !strings.HasSuffix(kind, "-advertisement") {
			return nil, errors.Join(resp.Body.Close(), fmt.Errorf("%w: it answers with %.80q", transport.ErrRepositoryNotFound, kind))
		}
	}
	if most > 0 {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, most), resp.Body}
	}
	return resp, nil
}

// Judge returns the error with a code for an answer of a remote or a failed connection; clone_failed is for the rest.
func Judge(err error) error {
	var known *skill.Error
	if unexpected, ok := errors.AsType[*plumbing.UnexpectedError](err); ok {
		err = unexpected.Err // it hides the wrapped error
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err // a refused redirect is not a failure of the network
	}
	var status *githttp.Err
	var unproven *tls.CertificateVerificationError
	var unexpectedData *packp.ErrUnexpectedData
	var network net.Error
	switch {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return engine.Authentication("%v", err)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return engine.NotRepositoryURL("%v", err)
	case errors.As(err, &status):
		switch s := status.StatusCode(); {
		case s == http.StatusProxyAuthRequired:
			return engine.Authentication("%v", err)
		case s == http.StatusGone:
			return engine.NotRepositoryURL("%v", err)
		case s == http.StatusTooManyRequests || s >= http.StatusInternalServerError:
			return engine.Unreachable("%v", err)
		}
	case errors.As(err, &unproven):
		return engine.Untrusted("%v", err)
	case errors.Is(err, pktline.ErrInvalidPktLen), errors.As(err, &unexpectedData):
		return engine.NotRepositoryURL("it does not speak git's protocol: %v", err)
	case errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return engine.Unreachable("%v", err)
	}
	return fault.Failed("clone_failed", "%v", err)
}
