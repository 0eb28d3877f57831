package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Update is one server-sent event. Its type is also the name of the event.
type Update struct {
	Type     string        `json:"type"`
	At       time.Time     `json:"ts"`
	IntentID string        `json:"intent_id,omitempty"`
	RunID    string        `json:"run_id"`
	Sprite   *UpdateSprite `json:"sprite"`
	Payload  any           `json:"payload"`
}

// UpdateSprite names the sprite of an update.
type UpdateSprite struct {
	Name string `json:"name"`
}

// The types of an Update.
const (
	UpdateOutput = "run.output"   // the payload is an entry of the journal
	UpdateRun    = "run.updated"  // the payload is the view of a run
	UpdateAlert  = "system.alert" // the payload is a Gap, or why the stream ends
)

// Gap says that a reader was too far behind, and which entries it did not get; GET …/entries has them.
type Gap struct {
	Code   string      `json:"code"`   // gap
	After  lattice.Seq `json:"after"`  // the last entry before the gap
	Before lattice.Seq `json:"before"` // the first position behind it
}

var eventParams = []Param{
	{"after", "integer", "only entries behind this sequence number; the header Last-Event-ID wins"},
	{"types", "string", "only these, separated by commas: run.output, run.updated, or types of entries"},
	{"backlog", "integer", "leave out older entries and tell of the gap when the reader is behind by more sequence numbers than this"},
}

// positionOf returns the position behind which a reader wants events.
func positionOf(r *http.Request) (lattice.Seq, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = "0" + r.FormValue("after")
	}
	after, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fault.BadInput("bad_request", "after and Last-Event-ID are sequence numbers")
	}
	return lattice.Seq(after), nil
}

// runEvents is the stream of a run's events to one reader.
type runEvents struct {
	out     *sse.Writer
	newest  func() (RunView, error)
	view    RunView     // as last seen
	unseen  lattice.Seq // entries since view
	after   lattice.Seq
	types   []string
	backlog lattice.Seq // 0 is any
}

// errBehind means that the reader is too far behind.
var errBehind = errors.New("the reader is behind")

func sendRunEvents(w http.ResponseWriter, r *http.Request, s Service) {
	after, err := positionOf(r)
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	backlog, err := strconv.ParseUint("0"+r.FormValue("backlog"), 10, 64)
	if err != nil {
		exchange.Fail(w, fault.BadInput("bad_request", "backlog is a number"))
		return
	}
	v, err := s.Run(r.Context(), idOf(r))
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	out, err := sse.Start(w)
	if err != nil {
		return // the reader is gone
	}
	e := &runEvents{out: out, newest: func() (RunView, error) { return s.Run(r.Context(), v.RunID) }, view: v, after: after, backlog: lattice.Seq(backlog)}
	if types := r.FormValue("types"); types != "" {
		e.types = strings.Split(types, ",")
	}
	for err = e.skip(); err == nil; {
		err = sse.Pump(r.Context(), out, func(ctx context.Context, yield func(WatchLine) error) error {
			return s.Tail(ctx, v.RunID, e.after, yield)
		}, e.line)
		if !errors.Is(err, errBehind) {
			break
		}
		err = e.skip()
	}
	if err != nil && r.Context().Err() == nil {
		_ = e.send(0, e.update(UpdateAlert, time.Now(), exchange.AsFault(err))) // the reader may be gone
	}
}

// skip moves to the newest entries, and tells the reader, when it is too far behind.
func (e *runEvents) skip() error {
	if e.backlog == 0 || e.view.LastSeq <= e.after+e.backlog {
		return nil
	}
	gap := Gap{Code: "gap", After: e.after, Before: e.view.LastSeq - e.backlog + 1}
	e.after = gap.Before - 1
	return e.send(e.after, e.update(UpdateAlert, time.Now(), gap))
}

func (e *runEvents) line(l WatchLine) error {
	if l.View != nil {
		e.view, e.unseen = *l.View, 0
		if !e.wants(UpdateRun, "") {
			return nil
		}
		return e.send(0, e.update(UpdateRun, e.view.UpdatedAt, e.view))
	}
	e.after = l.Entry.Seq
	if e.wants(UpdateOutput, l.Entry.Type) {
		if err := e.send(e.after, e.update(UpdateOutput, l.Entry.At, l.Entry)); err != nil {
			return err
		}
	}
	return e.checkBacklog()
}

// checkBacklog returns errBehind when more entries than the backlog came while as many were sent.
func (e *runEvents) checkBacklog() (err error) {
	if e.unseen++; e.backlog == 0 || e.unseen < e.backlog {
		return nil
	}
	e.unseen = 0
	if e.view, err = e.newest(); err == nil && e.view.LastSeq > e.after+e.backlog {
		err = errBehind
	}
	return err
}

func (e *runEvents) wants(update, entry string) bool {
	return len(e.types) == 0 || slices.Contains(e.types, update) || entry != "" && slices.Contains(e.types, entry)
}

// send writes an update; position 0 leaves the reader's as it is.
func (e *runEvents) send(position lattice.Seq, u Update) error {
	return e.out.Send(uint64(position), u.Type, u)
}

func (e *runEvents) update(kind string, at time.Time, payload any) Update {
	return newUpdate(kind, at, e.view, payload)
}

func newUpdate(kind string, at time.Time, v RunView, payload any) Update {
	u := Update{Type: kind, At: at, IntentID: v.IntentID, RunID: v.RunID, Payload: payload}
	if v.Sprite != "" {
		u.Sprite = &UpdateSprite{v.Sprite}
	}
	return u
}

// sendUpdates streams the views of runs that change.
func sendUpdates(w http.ResponseWriter, r *http.Request, s Service) {
	after, err := positionOf(r)
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	out, err := sse.Start(w)
	if err != nil {
		return // the reader is gone
	}
	_ = sse.Pump(r.Context(), out, func(ctx context.Context, yield func(RunView) error) error { return s.Updates(ctx, after, yield) },
		func(v RunView) error {
			return out.Send(uint64(v.LastSeq), UpdateRun, newUpdate(UpdateRun, v.UpdatedAt, v, v))
		}) // the reader resumes
}
