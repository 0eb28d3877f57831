package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// ErrGone means that the leader ended in the middle of a reply; the caller may lead now.
var ErrGone = errors.New("the leading lattice went away")

// Client speaks to a leader. Its zero value is not usable; see [NewClient]. The calls are grouped by their subject.
type Client struct {
	*connection
	RunCalls
	TravelCalls
	DecisionCalls
	AccessCalls
	StoreCalls
}

// RunCalls start, list, follow and end runs, and read their products.
type RunCalls struct{ *connection }

// TravelCalls take runs back, fork, compare and replay them.
type TravelCalls struct{ *connection }

// DecisionCalls are about what people decide: actions, intents, proposals, budgets, schedules and the audit log.
type DecisionCalls struct{ *connection }

// AccessCalls are about secrets of sprites and tokens of callers.
type AccessCalls struct{ *connection }

// StoreCalls look after stored state: the store's file, the remains of runs in sprites, and the sprites of fleets.
type StoreCalls struct{ *connection }

// connection sends requests to the leader.
type connection struct {
	hc     *http.Client
	settle string // the path below which the leader describes itself; see settleRoot
	// Redial, when set, is called when a request got no answer, because no leader was there or it went away; the request is
	// then sent again. Every request may be: asking twice for the same is the same as asking once.
	Redial func(context.Context) error
}

// Base is the URL under which a leader's socket is addressed.
const Base = "http://localhost"

// NewClient makes a client for the leader behind the unix socket at path.
func NewClient(path string) *Client {
	return newClient(&connection{hc: HTTPClient(path), settle: settleRoot})
}

// NewClientOver makes a client whose requests an HTTP client carries, with a token, to the interface for callers with tokens.
func NewClientOver(hc *http.Client) *Client { return newClient(&connection{hc: hc, settle: Root}) }

func newClient(c *connection) *Client {
	return &Client{c, RunCalls{c}, TravelCalls{c}, DecisionCalls{c}, AccessCalls{c}, StoreCalls{c}}
}

// Via has the client's requests name the program that makes them; see [Via].
func (c *Client) Via(program string) { c.hc = caller.Via(c.hc, program) }

// HTTPClient dials the unix socket at path, whatever the URL's host.
func HTTPClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
}

// Close drops idle connections.
func (c *connection) Close() { c.hc.CloseIdleConnections() }

// Hello asks who leads.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	return call[Hello](ctx, c.connection, "GET", c.settle+"/lattice", nil, nil)
}

// HandOver asks the leader to end its leadership.
func (c *Client) HandOver(ctx context.Context, to HandoverRequest) (Handover, error) {
	return call[Handover](ctx, c.connection, "POST", settleRoot+"/lattice/handover", nil, to)
}

func (c *connection) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		resp, err := c.send(ctx, method, path, query, payload)
		if c.Redial == nil || !unanswered(err) || attempt == maxAttempts || ctx.Err() != nil {
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

// CodeLeaderEnding is the code for requests that arrive while a leader ends. The leader has not acted on them.
const CodeLeaderEnding = "leader_ending"

// unanswered reports whether err means that the outcome of the request is unknown.
func unanswered(err error) bool {
	var p *fault.Error
	return errors.Is(err, ErrGone) || errors.As(err, &p) && p.Fault.Code == CodeLeaderEnding
}

func (c *connection) send(ctx context.Context, method, path string, query url.Values, payload []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, Base+path+"?"+query.Encode(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return nil, markGone(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, exchange.MaxBody))
	if err != nil {
		return nil, markGone(err)
	}
	p := new(fault.Error)
	if json.Unmarshal(data, p) != nil || p.Fault.Message == "" {
		return nil, fault.Internal("internal", "the leader answered %s: %s", resp.Status, bytes.TrimSpace(data))
	}
	return nil, p
}

// call sends a request, and repeats it if the leader ends during the reply: repeated requests count once.
func call[T any](ctx context.Context, c *connection, method, path string, query url.Values, body any) (out T, err error) {
	err = c.again(ctx, func() error {
		resp, err := c.do(ctx, method, path, query, body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var answer T
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return &cutOff{markGone(err)}
		}
		out = answer
		return nil
	})
	return out, err
}

// cutOff is the end of a leader in the middle of its answer.
type cutOff struct{ error }

func (e *cutOff) Unwrap() error { return e.error }

// again repeats a request whose answer was cut off, with the next leader.
func (c *connection) again(ctx context.Context, ask func() error) error {
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

// path joins segments, which may hold any character, to a path of the interface; "" is the newest of its kind.
func path(segments ...string) string {
	p := Root
	for _, s := range segments {
		switch s = url.PathEscape(s); s {
		case "":
			s = latest
		case ".", "..":
			s = strings.ReplaceAll(s, ".", "%2E") // not a way up
		}
		p += "/" + s
	}
	return p
}

// runPath returns the path of a run, or of a part of it; "" is the newest run.
func runPath(id string, part ...string) string {
	return strings.Join(append([]string{path("runs", id)}, part...), "/")
}

// queryAfter returns the query for the entries after a position in a run's log.
func queryAfter(after lattice.Seq) url.Values {
	return url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
}

func queryOutline(after lattice.Seq) url.Values {
	query := queryAfter(after)
	query.Set(paramOutline, "true")
	return query
}

// lines reads an NDJSON answer; a problem line ends it as that error.
func lines[T any](ctx context.Context, c *connection, path string, query url.Values, yield func(T) error) error {
	resp, err := c.do(ctx, "GET", path, query, nil)
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
			return &cutOff{markGone(err)}
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

// markGone turns a broken connection into ErrGone and leaves other errors alone.
func markGone(err error) error {
	var op *net.OpError
	if errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
