// Package sprites speaks the Sprites API: the HTTP and WebSocket interface through which Lattice runs commands and moves
// files in sandboxes, whether they live in the embedded host (package host) or on a remote service.
//
// Start at [Client]. The wire types in types.go are shared with the embedded host. Package sprites/spritestest holds the
// suite that every server must pass.
//
// The client never guesses an outcome: a command whose exit did not arrive is a [*LostError], a progress stream that
// reports a failure under status 200 is an [*APIError], and an answer that a proxy gave in the API's place is a
// [*ForeignError]. A request that could take effect twice is never repeated; retry.go lists the rules. The client reads no
// environment variables and starts no goroutine that outlives a call, or the value that a call returned to be closed.
package sprites

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/backoff"
)

// callTimeout ends a management or file call whose context has no deadline of its own.
const callTimeout = 2 * time.Minute

// Client speaks the Sprites API, embedded or remote. It is safe for concurrent use.
type Client struct {
	*transport

	mu  sync.Mutex
	env map[string][]string // results of Environment, by sprite; guarded by mu
}

// Services returns the calls about services.
func (c *Client) Services() Services { return Services{c.transport} }

// Images returns the calls about images.
func (c *Client) Images() Images { return Images{c.transport} }

// Policies returns the calls about the hosts and ports that sprites may reach.
func (c *Client) Policies() Policies { return Policies{c.transport} }

// Tasks returns the calls about tasks, which keep sprites awake.
func (c *Client) Tasks() Tasks { return Tasks{c.transport} }

// Ports returns the calls about the ports that programs in sprites listen on.
func (c *Client) Ports() Ports { return Ports{c.transport} }

// Files returns the calls about files, but for reading and writing one.
func (c *Client) Files() Files { return Files{c.transport} }

// URLs returns the calls about the URLs of sprites.
func (c *Client) URLs() URLs { return URLs{c.transport} }

// transport sends requests and opens sockets, and repeats those that may be repeated.
type transport struct {
	base  string
	token string
	hc    *http.Client
	o     Options

	mu     sync.Mutex // guards offers
	offers string     // the host's capabilities, as of the last exec
}

// Options of NewWith; the zero value is a client of the embedded host.
type Options struct {
	// Remote says that the variables of an exec replace the sprite's own instead of being added to them, as remote
	// services do. The client then sends the variables that every command needs (PATH, HOME …) with each exec.
	Remote bool
	// Jitter draws from [0,1) and spreads the retries of many clients; nil spreads nothing. Safe for concurrent use.
	Jitter func() float64
	// Wait waits before a retry, until ctx ends; nil waits by the clock.
	Wait func(ctx context.Context, d time.Duration) error
	// BeforeCheckpoint, if not nil, is called before a request after which the host keeps the present files of a sprite: a
	// checkpoint, a fork of the present state, a restore. After an error the client does not send the first two.
	BeforeCheckpoint func(ctx context.Context, sprite string) error
	// Probe is how often the other end of the socket of a command or a watch is asked whether it is there; three times as
	// long without a word and the connection is lost. 0 means 15 s.
	Probe time.Duration
}

// New makes a client for base ("http://127.0.0.1:1234", "https://api.sprites.dev"). hc may dial a unix socket; nil means
// http.DefaultClient. An empty token sends no Authorization header.
func New(base, token string, hc *http.Client) *Client { return NewWith(base, token, hc, Options{}) }

// NewWith is New with options.
func NewWith(base, token string, hc *http.Client, o Options) *Client {
	if hc == nil {
		hc = http.DefaultClient
	}
	if o.Wait == nil {
		o.Wait = backoff.Wait
	}
	if o.BeforeCheckpoint == nil {
		o.BeforeCheckpoint = func(context.Context, string) error { return nil }
	}
	o.Probe = cmp.Or(o.Probe, probeInterval)
	own := *hc
	if own.CheckRedirect == nil {
		own.CheckRedirect = sameServer
	}
	return &Client{transport: &transport{base: strings.TrimRight(base, "/"), token: token, hc: &own, o: o}, env: map[string][]string{}}
}

// Record makes c call each before it sends a request, also one that is repeated. Call it before the first request.
func (c *Client) Record(each func(*http.Request)) {
	c.hc.Transport = recorder{c.hc.Transport, each}
}

type recorder struct {
	next http.RoundTripper // nil is http.DefaultTransport
	each func(*http.Request)
}

func (t recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	t.each(r)
	if t.next == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.next.RoundTrip(r)
}

// sameServer follows no redirect to another server: it would be told the environment of commands, and asked to run them.
func sameServer(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; len(before) > maxRedirects || next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

const maxRedirects = 5

// Remote reports whether the client was made for a remote service.
func (c *Client) Remote() bool { return c.o.Remote }

// Create makes a sprite. A name that is taken is an *APIError with status 409. A connection that breaks is not tried
// again: the sprite may exist, which Get tells.
func (c *Client) Create(ctx context.Context, in Create) (Sprite, error) {
	var out Sprite
	err := c.sendRequest(ctx, request{method: http.MethodPost, path: "/v1/sprites", in: in}, &out)
	if err == nil && out.Name != in.Name {
		err = fmt.Errorf("the answer is about sprite %q: %w", out.Name, errOdd)
	}
	return out, describeError(err, "create sprite %s", in.Name)
}

// Get returns the sprite called name, or an error that is [ErrNotFound].
func (c *Client) Get(ctx context.Context, name string) (Sprite, error) {
	var out Sprite
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name)}, &out)
	if err == nil && out.Name != name {
		err = fmt.Errorf("the answer is about sprite %q: %w", out.Name, errOdd)
	}
	return out, describeError(err, "get sprite %s", name)
}

// maxPages bounds a list of sprites, of which a page holds 50.
const maxPages = 1000

// List returns all sprites whose name begins with prefix, page by page until the last.
func (c *Client) List(ctx context.Context, prefix string) ([]Sprite, error) {
	all := []Sprite{}
	query := url.Values{"max_results": {"50"}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	for range maxPages {
		var page struct {
			Sprites listOf[Sprite] `json:"sprites"`
			HasMore bool           `json:"has_more"`
			Next    string         `json:"next_continuation_token"`
		}
		err := c.sendRequest(ctx, request{method: http.MethodGet, path: "/v1/sprites", query: query}, &page)
		if err == nil && !page.Sprites.told {
			err = fmt.Errorf("the answer has no list of sprites: %w", errOdd)
		}
		if err != nil {
			return nil, describeError(err, "list sprites")
		}
		all = append(all, page.Sprites.items...)
		if !page.HasMore || page.Next == "" || page.Next == query.Get("continuation_token") {
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
	return nil, fmt.Errorf("list sprites: it does not end after %d pages: %w", maxPages, errOdd)
}

// Delete removes a sprite with its files and checkpoints.
func (c *Client) Delete(ctx context.Context, name string) error {
	c.mu.Lock()
	delete(c.env, name)
	c.mu.Unlock()
	return describeError(c.deleteResource(ctx, spritePath(name), nil), "delete sprite %s", name)
}

// deleteResource deletes the resource at path. If the first attempt may have taken effect, a second one that finds nothing has
// succeeded.
func (c *transport) deleteResource(ctx context.Context, path string, query url.Values) error {
	uncertain := false
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return c.retrySafely(ctx, true, func() error {
		err := c.attemptRequest(ctx, request{method: http.MethodDelete, path: path, query: query}, nil)
		if uncertain && errors.Is(err, ErrNotFound) {
			return nil
		}
		uncertain = uncertain || Uncertain(err)
		return err
	})
}

// listOf is a JSON array that tells an empty one, or null, from one that is missing.
type listOf[T any] struct {
	items []T
	told  bool
}

func (l *listOf[T]) UnmarshalJSON(data []byte) error {
	l.told = true
	return json.Unmarshal(data, &l.items)
}

func spritePath(name string, more ...string) string {
	p := "/v1/sprites/" + url.PathEscape(name)
	for _, m := range more {
		p += "/" + url.PathEscape(m)
	}
	return p
}

// describeError adds the operation that failed to err.
func describeError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// request is one HTTP request. At most one of in and body is set.
type request struct {
	method, path string
	query        url.Values
	in           any // sent as JSON
	body         io.Reader
	size         int64  // of body; -1 = not known
	accept       string // the kind of answer that is wanted, "" for any
	again        bool   // a POST that may be sent twice: it sets a state and does not start an action
}

// isIdempotent says that sending the request twice has the effect of sending it once.
func (r request) isIdempotent() bool { return r.method != http.MethodPost || r.again }

// sendRequest sends a request, again where that is safe, and decodes the answer into out (nil discards it).
func (c *transport) sendRequest(ctx context.Context, r request, out any) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return c.retrySafely(ctx, r.isIdempotent(), func() error { return c.attemptRequest(ctx, r, out) })
}

// withDeadline gives ctx a deadline when it has none.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// maxAnswer bounds a JSON answer.
const maxAnswer = 32 << 20

// attemptRequest sends a request once and reads its whole answer, which may be empty when out is nil or a *json.RawMessage.
func (c *transport) attemptRequest(ctx context.Context, r request, out any) error {
	res, err := c.sendOnce(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.connError(err)
	case len(data) > maxAnswer:
		return fmt.Errorf("the answer is longer than %d bytes: %w", maxAnswer, errOdd)
	}
	_, free := out.(*json.RawMessage)
	if out == nil {
		out, free = new(json.RawMessage), true
	}
	if free && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return unreadableAnswer(res, data, err)
	}
	return nil
}

// unreadableAnswer returns an error that describes an answer that should have been JSON.
func unreadableAnswer(res *http.Response, data []byte, err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok && looksForeign(res.Header, data) {
		return &ForeignError{Status: res.StatusCode, Kind: res.Header.Get("Content-Type"), Text: singleLineExcerpt(data)}
	}
	return fmt.Errorf("the answer cannot be read: %w: %w", err, errOdd)
}

// isForeign reports whether err says that something else than the API has answered.
func isForeign(err error) bool {
	var answer *ForeignError
	return errors.As(err, &answer)
}

// sendOnce sends one request and returns its answer when that is a success.
func (c *transport) sendOnce(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	body, size := r.body, r.size
	if r.in != nil {
		data, err := json.Marshal(r.in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body, size = bytes.NewReader(data), int64(len(data))
	}
	if body != nil {
		body = io.NopCloser(body) // the caller closes its own body
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if body != nil {
		if req.ContentLength = size; size == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	c.setAuthorization(req.Header)
	res, err := c.hc.Do(req)
	if err != nil {
		return nil, c.connError(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, readAPIError(res)
	}
	return res, nil
}

func (c *transport) setAuthorization(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}
