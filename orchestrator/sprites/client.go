// Package sprites speaks the Sprites API: the HTTP and WebSocket interface through which Lattice runs commands and moves
// files in sandboxes, whether they live in the embedded host (package sprites/local) or on a remote service.
//
// Start at [Client]. The wire types in types.go are shared with the embedded host. Package sprites/spritestest holds the
// suite that every server must pass.
//
// The client never guesses an outcome: a command whose exit did not arrive is a [*LostError], a progress stream that
// reports a failure under status 200 is an [*APIError]. It repeats GET requests that failed for lack of a connection and
// nothing else. It reads no environment and starts nothing that outlives a call.
package sprites

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// callTimeout ends a management or file call whose context has no deadline of its own.
const callTimeout = 2 * time.Minute

// retries of a GET that found no connection or a gateway's refusal, and the first pause between them, which doubles.
const (
	retries    = 3
	retryPause = 50 * time.Millisecond
)

// Client speaks the Sprites API, embedded or remote. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	hc    *http.Client
}

// New makes a client for base ("http://127.0.0.1:1234", "https://api.sprites.dev"). hc may dial a unix socket; nil means
// http.DefaultClient. An empty token sends no Authorization header.
func New(base, token string, hc *http.Client) *Client {
	if hc == nil {
		hc = http.DefaultClient
	}
	return &Client{base: strings.TrimRight(base, "/"), token: token, hc: hc}
}

// Create makes a sprite. A name that is taken is an *APIError with status 409.
func (c *Client) Create(ctx context.Context, in Create) (Sprite, error) {
	var out Sprite
	err := c.call(ctx, http.MethodPost, "/v1/sprites", nil, in, &out)
	return out, describe(err, "create sprite %s", in.Name)
}

// Get returns the sprite called name, or an error that is [ErrNotFound].
func (c *Client) Get(ctx context.Context, name string) (Sprite, error) {
	var out Sprite
	err := c.call(ctx, http.MethodGet, spritePath(name), nil, nil, &out)
	return out, describe(err, "get sprite %s", name)
}

// List returns all sprites whose name begins with prefix, page by page until the last.
func (c *Client) List(ctx context.Context, prefix string) ([]Sprite, error) {
	var all []Sprite
	query := url.Values{"max_results": {"50"}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	for {
		var page struct {
			Sprites []Sprite `json:"sprites"`
			HasMore bool     `json:"has_more"`
			Next    string   `json:"next_continuation_token"`
		}
		if err := c.call(ctx, http.MethodGet, "/v1/sprites", query, nil, &page); err != nil {
			return nil, describe(err, "list sprites")
		}
		all = append(all, page.Sprites...)
		if !page.HasMore || page.Next == "" || page.Next == query.Get("continuation_token") {
			return all, nil
		}
		query.Set("continuation_token", page.Next)
	}
}

// Delete removes a sprite with its files and checkpoints.
func (c *Client) Delete(ctx context.Context, name string) error {
	return describe(c.call(ctx, http.MethodDelete, spritePath(name), nil, nil, nil), "delete sprite %s", name)
}

func spritePath(name string, more ...string) string {
	p := "/v1/sprites/" + url.PathEscape(name)
	for _, m := range more {
		p += "/" + url.PathEscape(m)
	}
	return p
}

// describe says what was being done when err came up.
func describe(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// call sends in as JSON (nil sends no body) and decodes the answer into out (nil discards it).
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	res, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		// Drained so that the connection is used again; what the body holds does not matter.
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxErrorBody))
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// bounded gives ctx a deadline when it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// do sends one request and returns its answer when that is a success; GETs are repeated when there was no connection.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	pause := retryPause
	for attempt := 1; ; attempt++ {
		res, err := c.once(ctx, method, path, query, body)
		if err == nil {
			return res, nil
		}
		if method != http.MethodGet || attempt == retries || !unreachable(err) || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

func (c *Client) once(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	c.authorize(req.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.hc.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, readAPIError(res)
	}
	return res, nil
}

func (c *Client) authorize(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

// unreachable tells a server that could not be asked from one that answered.
func unreachable(err error) bool {
	api, answered := err.(*APIError)
	if !answered {
		return true
	}
	switch api.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
