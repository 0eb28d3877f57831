// Package page reads pages of the web as text. Start with [Fetch]. Pages are hostile: their size, time and redirects are limited,
// and addresses of this machine and of private networks are refused. In a sprite, the gateway applies the network policy and judges
// the addresses as well. Nothing that a page contains is followed: no link, image, frame or script.
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/spritekit/lattice/skills/httpenv"
	"github.com/spritekit/lattice/skills/web"
	"github.com/spritekit/lattice/spritekit/netrange"
)

const (
	maxRedirects = 5
	timeout      = 30 * time.Second
	maxHeader    = 64 << 10
)

// Fetch reads a page. A page that cannot be read has a Problem.
func Fetch(ctx context.Context, r web.Request) web.Page {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := fetch(ctx, r)
	if err != nil {
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // the message names the address
		}
		return web.Page{Problem: err.Error()}
	}
	return p
}

func fetch(ctx context.Context, r web.Request) (p web.Page, err error) {
	client, err := newClient(httpenv.Parse(r.Env))
	if err != nil {
		return p, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return p, err
	}
	if err := checkURL(req.URL); err != nil {
		return p, err
	}
	req.Header.Set("User-Agent", "spritekit")
	req.Header.Set("Accept", "text/html, text/*;q=0.9, application/json;q=0.8, application/xhtml+xml")
	resp, err := client.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return p, fmt.Errorf("the server answers with %s", resp.Status)
	}
	kind, isText := textKind(resp.Header.Get("Content-Type"))
	if !isText {
		return p, fmt.Errorf("it is %.80q, not text", kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.MaxBytes+1))
	switch {
	case err != nil:
		return p, fmt.Errorf("read the answer: %w", err)
	case int64(len(body)) > r.MaxBytes:
		return p, fmt.Errorf("it has more than %d bytes", r.MaxBytes)
	}
	sum := sha256.Sum256(body)
	p.FinalURL, p.SHA256 = resp.Request.URL.String(), hex.EncodeToString(sum[:])
	decoded, err := charset.NewReader(bytes.NewReader(body), resp.Header.Get("Content-Type"))
	if err != nil {
		return p, fmt.Errorf("decode the answer: %w", err)
	}
	if strings.Contains(kind, "html") {
		p.Title, p.Text, err = readHTML(decoded)
		return p, err
	}
	raw, err := io.ReadAll(decoded)
	p.Text = strings.ToValidUTF8(string(raw), "\uFFFD")
	return p, err
}

// textKind returns the media type of a header, and whether it is text.
func textKind(header string) (kind string, isText bool) {
	kind, _, err := mime.ParseMediaType(cmp.Or(header, "text/plain"))
	if err != nil {
		return header, false
	}
	return kind, strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		slices.Contains([]string{"application/json", "application/xml", "application/xhtml+xml"}, kind)
}

// newClient returns a client that follows few redirects, to places that are not less protected, and keeps no cookies.
func newClient(env httpenv.Vars) (*http.Client, error) {
	trust, err := env.Roots("SSL_CERT_FILE")
	if err != nil {
		return nil, err
	}
	proxied := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust}, MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: true,
	}
	direct := proxied.Clone()
	direct.DialContext = (&net.Dialer{ControlContext: checkAddress}).DialContext
	t := transport{direct: direct, proxied: proxied, proxyOf: env.Proxy()}
	proxied.Proxy = func(r *http.Request) (*url.URL, error) { return t.proxyOf(r.URL) }
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		case via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https":
			return fmt.Errorf("it redirects to %s, which is not encrypted", req.URL.Redacted())
		}
		return checkURL(req.URL)
	}}, nil
}

// transport judges the addresses of direct connections. A proxy looks names up itself and judges them; that of a sprite is the
// gateway.
type transport struct {
	direct, proxied *http.Transport
	proxyOf         func(*url.URL) (*url.URL, error)
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.proxyOf(req.URL)
	switch {
	case err != nil:
		return nil, err
	case proxy != nil:
		return t.proxied.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

// CloseIdleConnections implements the method that http.Client looks for.
func (t transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// checkURL refuses addresses that are not of the web, hold credentials, or name a private address.
func checkURL(u *url.URL) error {
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%s is not an http or https URL", u.Redacted())
	case u.User != nil:
		return errors.New("the URL holds a user or a password")
	case err == nil && netrange.IsPrivate(addr):
		return fmt.Errorf("%s is not a public address", addr)
	}
	return nil
}

// checkAddress refuses connections to addresses that are not public.
func checkAddress(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if netrange.IsPrivate(to.Addr()) {
		return fmt.Errorf("the name leads to %s, which is not a public address", to.Addr())
	}
	return nil
}
