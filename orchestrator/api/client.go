package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
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

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// ErrGone means that the leader ended in the middle of a reply; the caller may lead now.
var ErrGone = errors.New("the leading lattice went away")

// Client speaks to a leader. Its zero value is not usable; see NewClient.
type Client struct {
	hc *http.Client
	// Redial, when set, is called when a request got no answer, because no leader was there or it went away; the request is
	// then sent again. Every request may be: asking twice for the same is the same as asking once.
	Redial func(context.Context) error
}

// Base is the URL under which a leader's socket is addressed.
const Base = "http://localhost"

// NewClient makes a client for the leader behind the unix socket at path.
func NewClient(path string) *Client { return &Client{hc: HTTPClient(path)} }

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
func (c *Client) Close() { c.hc.CloseIdleConnections() }

// Hello asks who leads.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	return call[Hello](ctx, c, "GET", settleRoot+"/lattice", nil, nil)
}

// HandOver asks the leader to end its leadership.
func (c *Client) HandOver(ctx context.Context, to HandoverRequest) (Handover, error) {
	return call[Handover](ctx, c, "POST", settleRoot+"/lattice/handover", nil, to)
}

// Scrub takes the keys that agents were handed over out of their files in a sprite.
func (c *Client) Scrub(ctx context.Context, sprite string) error {
	_, err := call[struct{}](ctx, c, "POST", path("sprites", sprite, "scrub"), nil, nil)
	return err
}

// Prune removes the remains of ended runs.
func (c *Client) Prune(ctx context.Context, r PruneRequest) ([]Pruned, error) {
	return call[[]Pruned](ctx, c, "POST", Root+"/prune", nil, r)
}

// Start starts a run.
func (c *Client) Start(ctx context.Context, r RunRequest) (RunView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[RunView](ctx, c, "POST", Root+"/runs", nil, r)
}

// newKey draws the key by which a repeated request counts once.
func newKey() string { return strings.ToLower(rand.Text()[:16]) }

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, which RunList) ([]RunView, error) {
	return call[[]RunView](ctx, c, "GET", Root+"/runs", which.query(), nil)
}

// Run shows one run.
func (c *Client) Run(ctx context.Context, id string) (RunView, error) {
	return call[RunView](ctx, c, "GET", runPath(id), nil, nil)
}

// Drive goes on with an interrupted run.
func (c *Client) Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) {
	return call[RunView](ctx, c, "POST", runPath(id, "drive"), nil, r)
}

// Stop ends the driving of a run; it stays resumable.
func (c *Client) Stop(ctx context.Context, id string) (RunView, error) {
	return call[RunView](ctx, c, "POST", runPath(id, "stop"), nil, nil)
}

// Cancel ends a run for good.
func (c *Client) Cancel(ctx context.Context, id, by string) (RunView, error) {
	return call[RunView](ctx, c, "POST", runPath(id, "cancel"), nil, CancelRequest{By: by})
}

// Decide answers a wait.
func (c *Client) Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error) {
	return call[DecideReply](ctx, c, "POST", runPath(id, "decide"), nil, d)
}

// Entries yields a run's facts and events after a position.
func (c *Client) Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	return c.entries(ctx, id, after, position, yield)
}

// Outline yields a run's facts after a position, and the events next to them: enough to tell how the run went, and quick
// however much was said.
func (c *Client) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	return c.entries(ctx, id, after, outlined, yield)
}

// entries reads on behind the last entry that came when the leader ends under the answer.
func (c *Client) entries(ctx context.Context, id string, after lattice.Seq, query func(lattice.Seq) url.Values, yield func(lattice.Entry) error) error {
	return c.again(ctx, func() error {
		return lines(ctx, c, runPath(id, "entries"), query(after), func(e lattice.Entry) error {
			after = e.Seq
			return yield(e)
		})
	})
}

// Watch yields entries and views as they come. It returns ErrGone when the leader ends before the run does; it does not
// look for the next one, who has to be asked to drive the run first.
func (c *Client) Watch(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error {
	return c.watch(ctx, id, position(after), yield)
}

// WatchOutline is Watch with the entries of Outline.
func (c *Client) WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error {
	return c.watch(ctx, id, outlined(after), yield)
}

func (c *Client) watch(ctx context.Context, id string, query url.Values, yield func(WatchLine) error) error {
	done := false
	here := &Client{hc: c.hc}
	err := lines(ctx, here, runPath(id, "watch"), query, func(l WatchLine) error {
		done = done || l.Done
		return yield(l)
	})
	if err == nil && !done {
		return ErrGone
	}
	return err
}

// Log returns the output log of a run from a byte offset.
func (c *Client) Log(ctx context.Context, id string, offset int64) (io.ReadCloser, error) {
	resp, err := c.do(ctx, "GET", runPath(id, "log"), url.Values{"offset": {strconv.FormatInt(offset, 10)}}, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
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

func (c *Client) send(ctx context.Context, method, path string, query url.Values, payload []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, Base+path+"?"+query.Encode(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return nil, gone(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, gone(err)
	}
	p := new(fault.Error)
	if json.Unmarshal(data, p) != nil || p.Fault.Message == "" {
		return nil, fault.Internal("internal", "the leader answered %s: %s", resp.Status, bytes.TrimSpace(data))
	}
	return nil, p
}

// call sends a request, and repeats it if the leader ends during the reply: repeated requests count once.
func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (out T, err error) {
	err = c.again(ctx, func() error {
		resp, err := c.do(ctx, method, path, query, body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var answer T
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return &cutOff{gone(err)}
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
func (c *Client) again(ctx context.Context, ask func() error) error {
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

// position returns the query for the entries after a position in a run's log.
func position(after lattice.Seq) url.Values {
	return url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
}

func outlined(after lattice.Seq) url.Values {
	query := position(after)
	query.Set(paramOutline, "true")
	return query
}

// lines reads an NDJSON answer; a problem line ends it as that error.
func lines[T any](ctx context.Context, c *Client, path string, query url.Values, yield func(T) error) error {
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
			return &cutOff{gone(err)}
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

// gone turns a broken connection into ErrGone and leaves other errors alone.
func gone(err error) error {
	var op *net.OpError
	if errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
