package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Service is the interface of a leader. Errors that a user can act on are *fault.Error; all others are reported
// as internal. Run ids may be unique prefixes, "" means the last run.
type Service interface {
	Storage
	Artifacts
	Travel
	Review
	Actions
	Audit
	Budgets
	Proposals
	Intents
	Schedules
	Secrets
	Hello() Hello
	Start(ctx context.Context, r RunRequest) (RunView, error)
	Runs(ctx context.Context, which RunList) ([]RunView, error)
	Run(ctx context.Context, id string) (RunView, error)
	// Entries calls yield for the run's facts and events after a position, oldest first, until yield fails.
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Outline is Entries with a bounded number of events between two facts.
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Watch is Entries followed by new entries and views, until the run is not driven.
	Watch(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// WatchOutline is Watch with Outline in the place of Entries.
	WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) // go on with an interrupted run; a no-op when someone does
	Stop(ctx context.Context, id string) (RunView, error)                  // stop driving; the run stays resumable
	Cancel(ctx context.Context, id, by string) (RunView, error)
	Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error)
	Log(ctx context.Context, id string, offset int64) (io.ReadCloser, error) // output of skills that is not an event
	Prune(ctx context.Context, r PruneRequest) ([]Pruned, error)
	// Scrub takes the keys that agents were handed over out of their files in a sprite.
	Scrub(ctx context.Context, sprite string) error
	// HandOver ends the leadership when it returns nil, and changes nothing when it does not or ctx ends.
	HandOver(ctx context.Context, to HandoverRequest) (Handover, error)
}

// paramOutline asks for an outline; a leader that does not know it answers with everything.
const paramOutline = "outline"

// maxBody bounds request bodies: a flow of 1 MiB with its input.
const maxBody = 8 << 20

// Handler serves s; everything below /v1/sprites goes to sprites (nil with a remote Sprites API).
func Handler(s Service, sprites http.Handler) http.Handler {
	mux := http.NewServeMux()
	if sprites != nil {
		mux.Handle("/v1/sprites", sprites)
		mux.Handle("/v1/sprites/", sprites)
		mux.Handle("/v1/images", sprites)
		mux.Handle("/v1/images/", sprites)
	}
	routeStorage(mux, s)
	routeArtifacts(mux, s)
	routeTravel(mux, s)
	routeReview(mux, s)
	routeActions(mux, s)
	routeAudit(mux, s)
	routeBudgets(mux, s)
	routeProposals(mux, s)
	routeSecrets(mux, s)
	routeIntents(mux, s)
	routeSchedules(mux, s)
	mux.HandleFunc("GET /v1/lattice", func(w http.ResponseWriter, r *http.Request) { reply(w, s.Hello(), nil) })
	mux.HandleFunc("POST /v1/lattice/handover", func(w http.ResponseWriter, r *http.Request) {
		var in HandoverRequest
		if !decode(w, r, &in, false) { // a newer lattice may say more

			return
		}
		if in.API < 1 || in.PID < 1 { // null, say
			fail(w, fault.BadInput("bad_request", "a handover needs api and pid, of the lattice that leads next"))
			return
		}
		out, err := s.HandOver(r.Context(), in)
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/scrub", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, s.Scrub(r.Context(), r.FormValue("sprite")))
	})
	mux.HandleFunc("POST /v1/prune", func(w http.ResponseWriter, r *http.Request) {
		var in PruneRequest
		if !read(w, r, &in) {
			return
		}
		out, err := s.Prune(r.Context(), in)
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		var in RunRequest
		if !read(w, r, &in) {
			return
		}
		v, err := s.Start(r.Context(), in)
		reply(w, v, err)
	})
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		which, err := readRunList(r.URL.Query())
		if err != nil {
			reply(w, nil, err)
			return
		}
		v, err := s.Runs(r.Context(), which)
		reply(w, v, err)
	})
	mux.HandleFunc("GET /v1/run", func(w http.ResponseWriter, r *http.Request) {
		v, err := s.Run(r.Context(), r.FormValue("id"))
		reply(w, v, err)
	})
	mux.HandleFunc("POST /v1/run/{verb}", func(w http.ResponseWriter, r *http.Request) { change(w, r, s) })
	mux.HandleFunc("GET /v1/run/entries", func(w http.ResponseWriter, r *http.Request) {
		entries := s.Entries
		if r.FormValue(paramOutline) != "" {
			entries = s.Outline
		}
		stream(w, r, func(after lattice.Seq, line func(any) error) error {
			return entries(r.Context(), r.FormValue("id"), after, func(e lattice.Entry) error { return line(e) })
		})
	})
	mux.HandleFunc("GET /v1/run/watch", func(w http.ResponseWriter, r *http.Request) {
		watch := s.Watch
		if r.FormValue(paramOutline) != "" {
			watch = s.WatchOutline
		}
		stream(w, r, func(after lattice.Seq, line func(any) error) error {
			return watch(r.Context(), r.FormValue("id"), after, func(l WatchLine) error { return line(l) })
		})
	})
	mux.HandleFunc("GET /v1/run/log", func(w http.ResponseWriter, r *http.Request) {
		offset, err := strconv.ParseInt("0"+r.FormValue("offset"), 10, 64)
		if err != nil {
			fail(w, fault.BadInput("bad_request", "offset must be a number of bytes"))
			return
		}
		log, err := s.Log(r.Context(), r.FormValue("id"), offset)
		if err != nil {
			fail(w, err)
			return
		}
		defer log.Close()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.Copy(w, log) // the client sees a cut body
	})
	return mux
}

// change serves the verbs that move a run.
func change(w http.ResponseWriter, r *http.Request, s Service) {
	id := r.FormValue("id")
	switch r.PathValue("verb") {
	case "drive":
		var in DriveRequest
		if !read(w, r, &in) {
			return
		}
		v, err := s.Drive(r.Context(), id, in)
		reply(w, v, err)
	case "stop":
		v, err := s.Stop(r.Context(), id)
		reply(w, v, err)
	case "cancel":
		v, err := s.Cancel(r.Context(), id, requester(r.Context(), r.FormValue("by")))
		reply(w, v, err)
	case "decide":
		var in DecideRequest
		if !read(w, r, &in) {
			return
		}
		in.By = requester(r.Context(), in.By)
		v, err := s.Decide(r.Context(), id, in)
		reply(w, v, err)
	default:
		http.NotFound(w, r)
	}
}

// read decodes the body strictly into v and answers for itself when that fails.
func read(w http.ResponseWriter, r *http.Request, v any) bool { return decode(w, r, v, true) }

// decode refuses null, which would be every request with all that it leaves out. No body is an empty object.
func decode(w http.ResponseWriter, r *http.Request, v any, strict bool) bool {
	var body json.RawMessage
	if !decodeUpTo(w, r, &body, maxBody) {
		return false
	}
	if len(body) == 0 {
		return true
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if strict {
		dec.DisallowUnknownFields()
	}
	err := dec.Decode(v)
	if string(body) == "null" {
		err = errors.New("it is null")
	}
	if err != nil {
		fail(w, fault.BadInput("bad_request", "read request: %v", err))
	}
	return err == nil
}

func decodeUpTo(w http.ResponseWriter, r *http.Request, v any, limit int64) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		fail(w, fault.BadInput("bad_request", "read request: %v", err))
		return false
	}
	return true
}

func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client sees a cut body
}

// stream answers with NDJSON. An error after the first line ends the stream with a problem line.
func stream(w http.ResponseWriter, r *http.Request, produce func(lattice.Seq, func(any) error) error) {
	after, err := strconv.ParseUint("0"+r.FormValue("after"), 10, 64)
	if err != nil {
		fail(w, fault.BadInput("bad_request", "after must be a sequence number"))
		return
	}
	enc, started := json.NewEncoder(w), false
	flush := http.NewResponseController(w)
	err = produce(lattice.Seq(after), func(v any) error {
		if !started {
			started = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		return flush.Flush()
	})
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case started:
		_ = enc.Encode(asFault(err))
	default:
		fail(w, err)
	}
}

// asFault returns the [fault.Error] of err, or an internal one. Its exit code is never 0.
func asFault(err error) *fault.Error {
	if p := fault.As(err); p != nil {
		return &fault.Error{Fault: p.Fault, Exit: cmp.Or(p.Exit, protocol.ExitFailed)}
	}
	if refused, ok := errors.AsType[*lattice.Refusal](err); ok {
		return &fault.Error{Fault: refused.Fault, Exit: protocol.ExitFailed}
	}
	var advised interface {
		error
		Advice() (exit int, code, hint string) // errors of a store
	}
	if errors.As(err, &advised) {
		exit, code, hint := advised.Advice()
		return fault.New(exit, code, "%v", err).WithHint("%s", hint)
	}
	return fault.Internal("internal", "%v", err)
}

var httpStatus = map[int]int{
	protocol.ExitBadInput: http.StatusBadRequest, protocol.ExitNotFound: http.StatusNotFound,
	protocol.ExitDenied: http.StatusForbidden, protocol.ExitBusy: http.StatusConflict,
	protocol.ExitFailed: http.StatusUnprocessableEntity, protocol.ExitUnsupported: http.StatusNotImplemented,
	protocol.ExitLimit: http.StatusInsufficientStorage,
}

func fail(w http.ResponseWriter, err error) {
	p := asFault(err)
	status, ok := httpStatus[p.Exit]
	if !ok {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}
