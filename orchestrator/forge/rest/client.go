// Package rest makes the calls of a code host's REST interface. Start with Client; package github and package gitea embed
// Calls, the calls that are the same at both.
//
//	client   one request: credentials, limits of size and time, repetition
//	pace     one write at a time, and waiting for limits of requests
//	cache    answers that the code host confirms as unchanged
//	wire     the JSON of both code hosts
//	calls    the calls that both have
//
// A call that only reads is repeated when the code host fails. A call that writes is repeated only when the code host
// said that it did not perform it; after any other failure its caller has to find out first.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxAnswer   = 16 << 20 // bytes
	maxPages    = 100
	maxTries    = 3
	maxPatience = 2 * time.Minute // for which a call waits for a limit to end
)

// Token returns the token of the next request. It may ask for another one if the last has expired.
type Token func(ctx context.Context) (string, error)

// Options configures New. Base and Token are required.
type Options struct {
	Base   string // of the interface, such as https://api.github.com
	Token  Token
	Scheme string // of the header Authorization; "Bearer" by default
	Header http.Header
	// Gap is the least time between two writes.
	Gap time.Duration
	// Observe, which may be nil, is called with each request that was answered, and the status. A request whose answer was
	// kept and has not changed is not reported.
	Observe func(r *http.Request, status int)
	// Now and Sleep are the clock; by default that of the machine.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client makes calls. It is safe for concurrent use.
type Client struct {
	o     Options
	http  *http.Client
	cache cache
	pace  *pace
}

// New returns a Client.
func New(o Options) *Client {
	o.Base = strings.TrimSuffix(o.Base, "/")
	if o.Scheme == "" {
		o.Scheme = "Bearer"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	return &Client{o: o, pace: newPace(), http: &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token goes to one host
	}}
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do makes a call and decodes its answer into out, unless that is nil. path begins with a slash and is escaped already.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	_, err := c.tryCall(ctx, method, c.o.Base+path, in, out)
	return err
}

// DoAt is Do with a full URL.
func (c *Client) DoAt(ctx context.Context, method, address string, in, out any) error {
	_, err := c.tryCall(ctx, method, address, in, out)
	return err
}

// List calls yield with each item of a list, over all its pages.
func List[T any](ctx context.Context, c *Client, path string, query url.Values, yield func(T)) error {
	address := c.o.Base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	for range maxPages {
		var page []T
		next, err := c.tryCall(ctx, http.MethodGet, address, nil, &page)
		if err != nil {
			return err
		}
		for _, item := range page {
			yield(item)
		}
		if next == "" {
			return nil
		}
		if !strings.HasPrefix(next, c.o.Base+"/") {
			return fmt.Errorf("the code host continues a list at another address")
		}
		address = next
	}
	return fmt.Errorf("the list has more than %d pages", maxPages)
}

// tryCall makes one call, repeats it where that is safe, and returns the address of the next page.
func (c *Client) tryCall(ctx context.Context, method, address string, in, out any) (next string, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return "", fmt.Errorf("encode the request: %w", err)
		}
	}
	write := method != http.MethodGet
	if write {
		release, err := c.pace.beginWrite(ctx, c.o)
		if err != nil {
			return "", err
		}
		defer release()
	}
	for try := 1; ; try++ {
		if err := c.pace.awaitLimit(ctx, c.o); err != nil {
			return "", err
		}
		next, err = c.sendOnce(ctx, method, address, body, out)
		problem, answered := errors.AsType[*forge.Problem](err)
		switch {
		case err == nil || try == maxTries || ctx.Err() != nil:
			return next, err
		case answered && problem.Limited(): // it was not performed
			c.pace.stopUntil(problem.Retry)
		case write || answered && problem.Final():
			return "", err
		default:
			if err := c.o.Sleep(ctx, time.Duration(try)*time.Second); err != nil {
				return "", err
			}
		}
	}
}

// sendOnce sends one request.
func (c *Client) sendOnce(ctx context.Context, method, address string, body []byte, out any) (next string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return "", errors.New("the address of the code host is not a URL")
	}
	for name, values := range c.o.Header {
		r.Header[name] = values
	}
	token, err := c.o.Token(ctx)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", c.o.Scheme+" "+token)
	r.Header.Set("User-Agent", "lattice")
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	kept := c.cache.offerKept(r)
	res, err := c.http.Do(r)
	if err != nil {
		return "", fmt.Errorf("reach the code host: %w", err)
	}
	defer res.Body.Close()
	if c.o.Observe != nil && res.StatusCode != http.StatusNotModified {
		c.o.Observe(r, res.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the answer of the code host: %w", err)
	case len(answer) > maxAnswer:
		return "", fmt.Errorf("the answer of the code host has more than %d bytes", maxAnswer)
	case res.StatusCode == http.StatusNotModified && kept != nil:
		answer, next = kept.body, kept.next
	case res.StatusCode < 200 || res.StatusCode > 299:
		return "", problemOf(res, answer, c.o.Now())
	default:
		next = nextPage(res.Header)
		c.cache.keepAnswer(r, res, answer, next)
	}
	if out == nil {
		return next, nil
	}
	return next, decodeAnswer(answer, out)
}

// decodeAnswer decodes an answer into the value that out points to. It refuses one without content, such as a proxy gives, and null in
// the place of an object: that would be one without members. A list of nothing can be null.
func decodeAnswer(answer []byte, out any) error {
	answer = bytes.TrimSpace(answer)
	if isList := reflect.TypeOf(out).Elem().Kind() == reflect.Slice; len(answer) == 0 || string(answer) == "null" && !isList {
		return errors.New("the code host answered without content")
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the code host answered in another form than expected: %w", err)
	}
	return nil
}

// nextPage returns the address with rel="next" in the Link headers, "" if there is none.
func nextPage(h http.Header) string {
	for part := range strings.SplitSeq(strings.Join(h.Values("Link"), ","), ",") {
		address, rest, ok := strings.Cut(strings.TrimSpace(part), ">")
		if ok && strings.Contains(rest, `rel="next"`) {
			return strings.TrimPrefix(address, "<")
		}
	}
	return ""
}

// problemOf reads an answer that is not success.
func problemOf(res *http.Response, answer []byte, now time.Time) *forge.Problem {
	p := &forge.Problem{Status: res.StatusCode, Retry: limitOf(res, now)}
	var told struct {
		Message string `json:"message"`
		Errors  []any  `json:"errors"`
	}
	if json.Unmarshal(answer, &told) == nil {
		p.Message = told.Message
		for _, e := range told.Errors {
			switch e := e.(type) {
			case string:
				p.Message += "; " + e
			case map[string]any:
				if m, ok := e["message"].(string); ok {
					p.Message += "; " + m
				}
			}
		}
	}
	p.Message = text.Head(text.Visible(strings.Join(strings.Fields(strings.ToValidUTF8(p.Message, "")), " ")), 300)
	if res.StatusCode >= 300 && res.StatusCode < 400 && p.Message == "" {
		p.Message = "the repository has moved; name its new address"
	}
	return p
}
