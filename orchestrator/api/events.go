package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Item is an entry of a run, or the view after it, for all readers of its events.
type Item = stream.Item[RunView]

var eventParams = []route.Param{
	route.Int("after", "only entries behind this sequence number; the header Last-Event-ID wins"),
	route.String("types", "only these, separated by commas: run.output, run.updated, or types of entries"),
	route.Int("backlog", "leave out older entries and tell of the gap when the reader is behind by more sequence numbers than this"),
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
	frames  [][]byte    // of sendItems
}

// errBehind means that the reader is too far behind.
var errBehind = errors.New("the reader is behind")

func sendRunEvents(w http.ResponseWriter, r *http.Request, s Service) {
	after, err := exchange.PositionOf(r)
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	backlog, err := strconv.ParseUint("0"+r.FormValue("backlog"), 10, 63)
	if err != nil {
		exchange.Fail(w, fault.BadInput("bad_request", "backlog is a number"))
		return
	}
	v, err := s.Run(r.Context(), route.ID(r))
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	out, err := sse.Start(w)
	if err != nil {
		return // the reader is gone
	}
	e := &runEvents{out: out, newest: func() (RunView, error) { return s.Run(r.Context(), v.RunID) }, view: v, after: after, backlog: lattice.Seq(backlog), types: stream.SplitTypes(r.FormValue("types"))}
	for err = e.skipEntries(); err == nil; {
		err = sse.Pump(r.Context(), out, func(ctx context.Context, yield func([]*Item) error) error {
			return s.Tail(ctx, v.RunID, e.after, yield)
		}, e.sendItems)
		if !errors.Is(err, errBehind) {
			break
		}
		err = e.skipEntries()
	}
	if err != nil && r.Context().Err() == nil {
		_ = e.sendEvent(0, stream.Alert, exchange.AsFault(err)) // the reader may be gone
	}
}

// skipEntries moves to the newest entries, and tells the reader, when it is too far behind.
func (e *runEvents) skipEntries() error {
	if e.backlog == 0 || e.view.LastSeq <= e.after+e.backlog {
		return nil
	}
	gap := stream.Gap{Code: "gap", After: e.after, Before: e.view.LastSeq - e.backlog + 1}
	e.after = gap.Before - 1
	return e.sendEvent(e.after, stream.Alert, gap)
}

// sendItems sends those of the items that the reader wants.
func (e *runEvents) sendItems(items []*Item) error {
	e.frames = e.frames[:0]
	for _, i := range items {
		switch {
		case i.View != nil:
			if e.view, e.unseen = *i.View, 0; !e.isWanted(stream.Run, "") {
				continue
			}
		default:
			e.after = i.Entry.Seq
			if e.unseen++; !e.isWanted(stream.Output, i.Entry.Type) {
				continue
			}
		}
		frame, err := i.Encode(e.view.nameRun())
		if err != nil {
			return err
		}
		e.frames = append(e.frames, frame)
	}
	if err := e.out.SendEncoded(e.frames); err != nil {
		return err
	}
	return e.checkBacklog()
}

// checkBacklog returns errBehind when more entries than the backlog came while as many were sent.
func (e *runEvents) checkBacklog() (err error) {
	if e.backlog == 0 || e.unseen < e.backlog {
		return nil
	}
	e.unseen = 0
	if e.view, err = e.newest(); err == nil && e.view.LastSeq > e.after+e.backlog {
		err = errBehind
	}
	return err
}

func (e *runEvents) isWanted(update, entry string) bool {
	return len(e.types) == 0 || slices.Contains(e.types, update) || entry != "" && slices.Contains(e.types, entry)
}

// sendEvent writes an update; position 0 leaves the reader's as it is.
func (e *runEvents) sendEvent(position lattice.Seq, kind string, payload any) error {
	id := ""
	if position > 0 {
		id = strconv.FormatUint(uint64(position), 10)
	}
	return e.out.Send(id, kind, stream.New(kind, time.Now(), e.view.nameRun(), payload))
}

// nameRun names the run for updates about it.
func (v *RunView) nameRun() stream.About {
	return stream.About{RunID: v.RunID, IntentID: v.IntentID, Sprite: v.Sprite}
}

// sendUpdates streams the views of runs that change, and the entries of the audit log about intents, sprites and code hosts.
func sendUpdates(w http.ResponseWriter, r *http.Request, s Service) {
	after, err := stream.ParsePosition(cmp.Or(r.Header.Get(exchange.HeaderLast), r.FormValue("after")))
	types, wrong := stream.ParseTypes(r.FormValue("types"))
	if err = cmp.Or(err, wrong); err != nil {
		exchange.Fail(w, fault.BadInput("bad_request", "%v", err).WithHint("after and Last-Event-ID take the id of the last event that was read"))
		return
	}
	out, err := sse.Start(w)
	if err != nil {
		return // the reader is gone
	}
	_ = sse.Pump(r.Context(), out, func(ctx context.Context, yield func(stream.Update) error) error {
		return s.Changes(ctx, after, yield)
	}, func(u stream.Update) error {
		if !u.IsOf(types) {
			return nil
		}
		return out.Send(u.ID, u.Type, u)
	}) // the reader resumes
}
