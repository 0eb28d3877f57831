// Package wire carries the requests of the leader's clients, and repeats those that a leader which ended left without an answer.
// Start with [Connection] and [Call]. It knows no route and no type of the interface.
package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/spritekit/fault"
)

// ErrGone means that the leader ended in the middle of a reply; the caller may lead now.
var ErrGone = errors.New("the leading lattice went away")

// Base is the URL under which a leader's socket is addressed.
const Base = "http://localhost"

// Connection sends requests to the leader.
type Connection struct {
	HTTP *http.Client
	// Redial, when set, is called when a request got no answer, because no leader was there or it went away; the request is
	// then sent again. Every request may be: asking twice for the same is the same as asking once.
	Redial func(context.Context) error
	// Waiting, when set, is called when a request of a [Call] is sent. Its result is called when the answer begins.
	Waiting func() (stop func())
	// Ending is the code of the error with which a leader that ends answers. It has not acted on the request.
	Ending string
}

// Dial dials the unix socket at path, whatever the URL's host.
func Dial(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
}

// Close drops idle connections.
func (c *Connection) Close() { c.HTTP.CloseIdleConnections() }

// Do sends a request, to the next leader if the one that got it ends, and returns an answer with a result.
func (c *Connection) Do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	return c.sendRequest(ctx, nil, method, path, query, body)
}

func (c *Connection) sendRequest(ctx context.Context, waiting func() (stop func()), method, path string, query url.Values, body any) (*http.Response, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		stop := func() {}
		if waiting != nil {
			stop = waiting()
		}
		resp, err := c.sendOnce(ctx, method, path, query, payload)
		stop()
		if c.Redial == nil || !c.isUnanswered(err) || attempt == maxAttempts || ctx.Err() != nil {
			return resp, err
		}
		if err := c.Redial(ctx); err != nil {
			return nil, err
		}
	}
}

// maxAttempts bounds how many leaders in a row a request is sent to. Commands that follow each other closely each lead
// for a moment.
const maxAttempts = 10

// isUnanswered reports whether err means that the outcome of the request is unknown.
func (c *Connection) isUnanswered(err error) bool {
	var p *fault.Error
	return errors.Is(err, ErrGone) || errors.As(err, &p) && p.Fault.Code == c.Ending
}

func (c *Connection) sendOnce(ctx context.Context, method, path string, query url.Values, payload []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, Base+path+"?"+query.Encode(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, MarkGone(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, exchange.MaxBody))
	if err != nil {
		return nil, MarkGone(err)
	}
	p := new(fault.Error)
	if json.Unmarshal(data, p) != nil || p.Fault.Message == "" {
		return nil, fault.Internal("internal", "the leader answered %s: %s", resp.Status, bytes.TrimSpace(data))
	}
	return nil, p
}

// Call sends a request, and repeats it if the leader ends during the reply: repeated requests count once.
func Call[T any](ctx context.Context, c *Connection, method, path string, query url.Values, body any) (T, error) {
	out, _, err := callWithLink[T](ctx, c, method, path, query, body)
	return out, err
}

// callWithLink is Call that also returns the header Link of the answer.
func callWithLink[T any](ctx context.Context, c *Connection, method, path string, query url.Values, body any) (out T, link string, err error) {
	err = c.Again(ctx, func() error {
		resp, err := c.sendRequest(ctx, c.Waiting, method, path, query, body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var answer T
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return &cutOff{MarkGone(err)}
		}
		out, link = answer, resp.Header.Get("Link")
		return nil
	})
	return out, link, err
}

// List reads a list page by page: at most so many items as the parameter limit says, all of them if it is 0 or missing. It begins again
// if the list changed so that a page cannot be found.
func List[T any](ctx context.Context, c *Connection, path string, query url.Values) ([]T, error) {
	most, _ := strconv.Atoi(query.Get("limit")) // 0 for none
	for attempt := 1; ; attempt++ {
		all, err := readPages[T](ctx, c, path, query, most)
		if p := fault.As(err); p == nil || p.Code != exchange.CodeListChanged || attempt == maxAttempts {
			return all, err
		}
	}
}

func readPages[T any](ctx context.Context, c *Connection, path string, query url.Values, most int) ([]T, error) {
	all, page := []T{}, url.Values{}
	maps.Copy(page, query)
	for page != nil {
		if page.Set("limit", strconv.Itoa(exchange.MaxLimit)); most > 0 {
			page.Set("limit", strconv.Itoa(min(most-len(all), exchange.MaxLimit)))
		}
		items, link, err := callWithLink[[]T](ctx, c, "GET", path, page, nil)
		if err != nil {
			return nil, err
		}
		if all = append(all, items...); len(items) == 0 || len(all) == most {
			break
		}
		if page, err = exchange.NextOf(link); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cutOff is the end of a leader in the middle of its answer.
type cutOff struct{ error }

func (e *cutOff) Unwrap() error { return e.error }

// Again repeats a request whose answer was cut off, with the next leader.
func (c *Connection) Again(ctx context.Context, ask func() error) error {
	for attempt := 1; ; attempt++ {
		err := ask()
		var cut *cutOff
		if c.Redial == nil || !errors.As(err, &cut) || !errors.Is(err, ErrGone) || attempt == maxAttempts || ctx.Err() != nil {
			return err
		}
		if err := c.Redial(ctx); err != nil {
			return err
		}
	}
}

// Lines reads an NDJSON answer; a problem line ends it as that error.
func Lines[T any](ctx context.Context, c *Connection, path string, query url.Values, yield func(T) error) error {
	resp, err := c.Do(ctx, "GET", path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(bufio.NewReaderSize(resp.Body, 64<<10))
	for {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return &cutOff{MarkGone(err)}
		}
		p := new(fault.Error)
		if json.Unmarshal(raw, p) == nil && p.Exit != 0 {
			return p
		}
		var line T
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("read the leader's answer: %w", err)
		}
		if err := yield(line); err != nil {
			return err
		}
	}
}

// MarkGone turns a broken connection into ErrGone and leaves other errors alone.
func MarkGone(err error) error {
	var op *net.OpError
	if errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
