package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// httpTransport speaks to one repository over HTTP.
type httpTransport struct {
	client  *http.Client
	base    *url.URL // of the repository, after redirects
	remote  Remote
	origin  string // scheme://host:port that the credential is for
	service string
}

const (
	maxRedirects = 5
	headerLimit  = 60 * time.Second // until a remote begins to answer a question
)

// dialHTTP asks for the refs.
func dialHTTP(ctx context.Context, to Remote, service string) (transport, io.Reader, error) {
	base, err := url.Parse(to.URL)
	if err != nil || base.Host == "" || base.Scheme != to.Protocol {
		return nil, nil, fmt.Errorf("%w: %s is no URL for %s", ErrUnreachable, withoutUser(to.URL), to.Protocol)
	}
	base.User = nil
	base.RawQuery, base.Fragment = "", ""
	t := &httpTransport{base: base, remote: to, origin: originOf(base), service: service}
	if t.client, err = t.newClient(); err != nil {
		return nil, nil, err
	}
	question := base.JoinPath("info", "refs")
	question.RawQuery = "service=" + service
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, question.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := t.do(req)
	if err != nil {
		return nil, nil, err
	}
	hello, err := t.hello(resp)
	if err != nil {
		return nil, nil, errors.Join(err, resp.Body.Close())
	}
	return t, hello, nil
}

func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "it"
	}
	u.User = nil
	return u.String()
}

// originOf is scheme, host and port, the port always said.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func (t *httpTransport) newClient() (*http.Client, error) {
	env := environment(t.remote.Env)
	through := proxiesOf(env)
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := first(env, "GIT_SSL_CAINFO", "SSL_CERT_FILE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates to trust: %s holds none", file)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: func(r *http.Request) (*url.URL, error) { return through.of(r.URL) }, TLSClientConfig: config,
			ResponseHeaderTimeout: headerLimit, TLSHandshakeTimeout: headerLimit, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: headerLimit}).DialContext,
		},
		CheckRedirect: t.redirect,
	}, nil
}

// redirect follows what a fetch's first question is sent to, if that is the same question elsewhere.
func (t *httpTransport) redirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	switch {
	case t.service != UploadPack || req.Method != http.MethodGet || via[0].Method != http.MethodGet:
		return fmt.Errorf("%w: it redirects where no redirect is followed", ErrRefused)
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: it redirects without end", ErrRefused)
	case req.URL.Scheme != "https" && (req.URL.Scheme != last.Scheme || !strings.EqualFold(req.URL.Host, last.Host)):
		return fmt.Errorf("%w: it redirects to %s, which is not protected as %s is", ErrRefused, originOf(req.URL), originOf(last))
	case !strings.HasSuffix(req.URL.Path, "/info/refs"):
		return fmt.Errorf("%w: it redirects to something else", ErrRefused)
	}
	t.authorize(req)
	return nil
}

// authorize gives the credential to whom it is for, and takes it from anybody else.
func (t *httpTransport) authorize(req *http.Request) {
	req.Header.Del("Authorization")
	if t.remote.Token != "" && originOf(req.URL) == t.origin {
		req.SetBasicAuth(t.remote.Username, t.remote.Token)
	}
}

func (t *httpTransport) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", strings.TrimPrefix(agent, "agent="))
	t.authorize(req)
	resp, err := t.client.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		if errors.Is(err, ErrRefused) {
			return nil, err
		}
		var unproven *tls.CertificateVerificationError
		if errors.As(err, &unproven) {
			return nil, fmt.Errorf("%w: %w", ErrUntrusted, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	err = nil
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return resp, nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		err = ErrAuthentication
	case code == http.StatusNotFound, code == http.StatusGone:
		err = ErrNotRepository
	case code == http.StatusTooManyRequests, code >= 500:
		err = ErrUnreachable
	default:
		err = ErrRefused
	}
	resp.Body.Close()
	return nil, fmt.Errorf("%w: %s answers %s", err, originOf(req.URL), resp.Status)
}

// hello checks that the answer is git's, and takes its first line off.
func (t *httpTransport) hello(resp *http.Response) (io.Reader, error) {
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-"+t.service+"-advertisement" {
		return nil, fmt.Errorf("%w: it answers with %.80q (the old protocol of plain files is not spoken)", ErrNotRepository, kind)
	}
	at := *resp.Request.URL
	at.Path = strings.TrimSuffix(at.Path, "/info/refs")
	at.RawPath, at.RawQuery = "", ""
	t.base = &at
	r := buffered(resp.Body)
	begin, err := r.Peek(14)
	if err == nil && strings.HasPrefix(string(begin[4:]), "# service=") {
		// One line and a flush stand before the refs.
		size := 0
		if _, err := fmt.Sscanf(string(begin[:4]), "%04x", &size); err != nil || size < 14 || size > 100 {
			return nil, fmt.Errorf("%w: what it says is not git's protocol", ErrNotRepository)
		}
		if _, err := r.Discard(size + 4); err != nil {
			return nil, spoken(io.ErrUnexpectedEOF)
		}
	}
	return body{r, resp.Body}, nil
}

// small is how much of a request is collected before it is sent, in bytes. What fits goes with its length, which some
// servers need; git draws the line in the same place.
const small = 1 << 20

// exchange is one POST. The request streams; what it says is answered after its end.
func (t *httpTransport) exchange(ctx context.Context, write func(io.Writer) error) (io.ReadCloser, error) {
	read, send := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := write(send)
		send.CloseWithError(err)
		sent <- err
	}()
	resp, err := t.post(ctx, read)
	read.CloseWithError(io.ErrClosedPipe) // a writer that was not read to the end ends now
	if wrote := <-sent; wrote != nil && !errors.Is(wrote, io.ErrClosedPipe) {
		if err == nil {
			resp.Body.Close()
		}
		return nil, wrote
	}
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (t *httpTransport) post(ctx context.Context, from io.Reader) (*http.Response, error) {
	begin := make([]byte, small)
	n, err := io.ReadFull(from, begin)
	var content io.Reader = bytes.NewReader(begin[:n])
	switch {
	case err == nil:
		content = io.MultiReader(content, from)
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base.JoinPath(t.service).String(), content)
	if err != nil {
		return nil, err
	}
	kind := "application/x-" + t.service
	req.Header.Set("Content-Type", kind+"-request")
	req.Header.Set("Accept", kind+"-result")
	resp, err := t.do(req)
	if err != nil {
		return nil, err
	}
	if resp.Header.Get("Content-Type") != kind+"-result" {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: it answers with %.80q", ErrRefused, resp.Header.Get("Content-Type"))
	}
	return resp, nil
}

func (t *httpTransport) Close() error {
	t.client.CloseIdleConnections()
	return nil
}
