package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Start starts a run.
func (c RunCalls) Start(ctx context.Context, r RunRequest) (RunView, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[RunView](ctx, c.connection, "POST", Root+"/runs", nil, r)
}

// newKey draws the key by which a repeated request counts once.
func newKey() string { return strings.ToLower(rand.Text()[:16]) }

// Runs lists runs, newest first.
func (c RunCalls) Runs(ctx context.Context, which RunList) ([]RunView, error) {
	return callList[RunView](ctx, c.connection, Root+"/runs", which.toQuery())
}

// Run shows one run.
func (c RunCalls) Run(ctx context.Context, id string) (RunView, error) {
	return call[RunView](ctx, c.connection, "GET", runPath(id), nil, nil)
}

// Program returns the ExecIR document that a run executes.
func (c RunCalls) Program(ctx context.Context, id string) (json.RawMessage, error) {
	return call[json.RawMessage](ctx, c.connection, "GET", runPath(id, "program"), nil, nil)
}

// Drive goes on with an interrupted run.
func (c RunCalls) Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) {
	return call[RunView](ctx, c.connection, "POST", runPath(id, "drive"), nil, r)
}

// Stop ends the driving of a run; it stays resumable.
func (c RunCalls) Stop(ctx context.Context, id string) (RunView, error) {
	return call[RunView](ctx, c.connection, "POST", runPath(id, "stop"), nil, nil)
}

// Cancel ends a run for good.
func (c RunCalls) Cancel(ctx context.Context, id, by string) (RunView, error) {
	return call[RunView](ctx, c.connection, "POST", runPath(id, "cancel"), nil, CancelRequest{By: by})
}

// Decide answers a wait.
func (c RunCalls) Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error) {
	return call[DecideReply](ctx, c.connection, "POST", runPath(id, "decide"), nil, d)
}

// Entries yields a run's facts and events after a position.
func (c RunCalls) Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	return c.readEntries(ctx, id, after, queryAfter, yield)
}

// Outline yields a run's facts after a position, and the events next to them: enough to tell how the run went, and quick
// however much was said.
func (c RunCalls) Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error {
	return c.readEntries(ctx, id, after, queryOutline, yield)
}

// readEntries reads on behind the last entry that came when the leader ends under the answer.
func (c RunCalls) readEntries(ctx context.Context, id string, after lattice.Seq, query func(lattice.Seq) url.Values, yield func(lattice.Entry) error) error {
	return c.Again(ctx, func() error {
		return lines(ctx, c.connection, runPath(id, "entries"), query(after), func(e lattice.Entry) error {
			after = e.Seq
			return yield(e)
		})
	})
}

// Watch yields entries and views as they come. It returns ErrGone when the leader ends before the run does; it does not
// look for the next one, who has to be asked to drive the run first.
func (c RunCalls) Watch(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error {
	return c.watchRun(ctx, id, queryAfter(after), yield)
}

// WatchOutline is Watch with the entries of Outline.
func (c RunCalls) WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error {
	return c.watchRun(ctx, id, queryOutline(after), yield)
}

func (c RunCalls) watchRun(ctx context.Context, id string, query url.Values, yield func(WatchLine) error) error {
	done := false
	here := &connection{HTTP: c.HTTP}
	err := lines(ctx, here, runPath(id, "watch"), query, func(l WatchLine) error {
		done = done || l.Done
		return yield(l)
	})
	if err == nil && !done {
		return ErrGone
	}
	return err
}

// Log returns the output log of a run from a byte offset, of all nodes or of one.
func (c RunCalls) Log(ctx context.Context, id, node string, offset int64) (io.ReadCloser, error) {
	resp, err := c.Do(ctx, "GET", runPath(id, "log"), queryOf("offset", strconv.FormatInt(offset, 10), "node", node), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
