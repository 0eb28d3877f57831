package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
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
	PastFiles
	Actions
	Audit
	Budgets
	Proposals
	Intents
	Schedules
	Secrets
	Access
	Deliveries
	Boards
	Loops
	Fleet
	Flows
	Usage
	Hello() Hello
	Start(ctx context.Context, r RunRequest) (RunView, error)
	Runs(ctx context.Context, which RunList) ([]RunView, error)
	Run(ctx context.Context, id string) (RunView, error)
	// Program returns the ExecIR document that a run executes.
	Program(ctx context.Context, id string) (json.RawMessage, error)
	// Entries calls yield for the run's facts and events after a position, oldest first, until yield fails.
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Outline is Entries with a bounded number of events between two facts.
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Watch is Entries followed by new entries and views, until the run is not driven.
	Watch(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// WatchOutline is Watch with Outline in the place of Entries.
	WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// Tail is Watch that does not end when the run is not driven.
	Tail(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// Updates calls yield for the view of each run that changed behind a position, and then of each that changes.
	Updates(ctx context.Context, after lattice.Seq, yield func(RunView) error) error
	Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) // go on with an interrupted run; a no-op when someone does
	Stop(ctx context.Context, id string) (RunView, error)                  // stop driving; the run stays resumable
	Cancel(ctx context.Context, id, by string) (RunView, error)
	Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error)
	// Log reads the output of skills that is not an event, of all nodes or of one.
	Log(ctx context.Context, id, node string, offset int64) (io.ReadCloser, error)
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

// settleRoot is the path below which two processes of any versions settle who leads; see Hello. The rest of the interface
// may move.
const settleRoot = "/v1"

// Handler serves s; everything below /v1/sprites goes to sprites (nil with a remote Sprites API).
func Handler(s Service, sprites http.Handler) http.Handler {
	mux := http.NewServeMux()
	if sprites != nil {
		mux.Handle("/v1/sprites", sprites)
		mux.Handle("/v1/sprites/", sprites)
		mux.Handle("/v1/images", sprites)
		mux.Handle("/v1/images/", sprites)
	}
	routes := Routes(s)
	for _, r := range routes {
		serve := r.checkParams(r.serve)
		mux.HandleFunc(r.Method+" "+r.Path, serve)
		if settled, ok := strings.CutPrefix(r.Path, Root+"/lattice"); ok {
			mux.HandleFunc(r.Method+" "+settleRoot+"/lattice"+settled, serve)
		}
	}
	mux.HandleFunc("GET "+Root+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		_, _ = io.WriteString(w, Description()) // the client sees a cut body
	})
	mux.HandleFunc("/api/", unknownRoute(routes))
	return caller.RecordProgram(mux)
}

func leaderRoutes(s Service) []Route {
	return []Route{
		get("/lattice", "Describe the leader.", func(*http.Request) (Hello, error) { return s.Hello(), nil }),
		raw[Handover](Owner, http.MethodPost, "/lattice/handover", "End the leadership in favour of another process.", mediaJSON, func(w http.ResponseWriter, r *http.Request) {
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
		}),
		post(Operator, "/sprites/{id}/scrub", "Remove the keys that agents were handed over from their files in a sprite.",
			func(r *http.Request, _ struct{}) (struct{}, error) {
				return struct{}{}, s.Scrub(r.Context(), r.PathValue("id"))
			}),
		post(Admin, "/prune", "Remove the remains of ended runs.", func(r *http.Request, in PruneRequest) ([]Pruned, error) { return s.Prune(r.Context(), in) }),
	}
}

func runRoutes(s Service) []Route {
	after := []Param{{"after", "integer", "only those behind this sequence number"}, {"limit", "integer", "at most so many lines"}, {paramOutline, "boolean", "a bounded number of events between two facts"}}
	return []Route{
		acceptKey(post(Admin, "/runs", "Start a run.", func(r *http.Request, in RunRequest) (RunView, error) {
			if in.Key == "" && r.Header.Get(headerKey) != "" {
				in.Key = keyOf(r, "")
			}
			return s.Start(r.Context(), in)
		})),
		raw[[]RunView](Viewer, http.MethodGet, "/runs", "List runs, the newest first. A header Link names the next page.", mediaJSON, func(w http.ResponseWriter, r *http.Request) {
			which, err := readRunList(r.URL.Query())
			var out []RunView
			if err == nil {
				out, err = s.Runs(r.Context(), which)
			}
			if err == nil && which.Limit > 0 && len(out) == which.Limit {
				which.Before = out[len(out)-1].RunID
				w.Header().Set("Link", "<"+Root+"/runs?"+which.query().Encode()+`>; rel="next"`)
			}
			reply(w, out, err)
		}, runListParams...),
		get("/runs/{id}", "Return a run. The id may be the beginning of one, or latest.", func(r *http.Request) (RunView, error) { return s.Run(r.Context(), idOf(r)) }),
		get("/runs/{id}/program", "Return the ExecIR document that a run executes.", func(r *http.Request) (json.RawMessage, error) { return s.Program(r.Context(), idOf(r)) }),
		post(Operator, "/runs/{id}/drive", "Go on with an interrupted run.", func(r *http.Request, in DriveRequest) (RunView, error) { return s.Drive(r.Context(), idOf(r), in) }),
		post(Operator, "/runs/{id}/stop", "Stop driving a run; it stays resumable.", func(r *http.Request, _ struct{}) (RunView, error) { return s.Stop(r.Context(), idOf(r)) }),
		post(Operator, "/runs/{id}/cancel", "End a run for good.", func(r *http.Request, in CancelRequest) (RunView, error) {
			return s.Cancel(r.Context(), idOf(r), requester(r.Context(), in.By))
		}),
		post(Operator, "/runs/{id}/decide", "Answer, approve or reject that for which a run waits.", func(r *http.Request, in DecideRequest) (DecideReply, error) {
			in.By = requester(r.Context(), in.By)
			return s.Decide(r.Context(), idOf(r), in)
		}),
		raw[lattice.Entry](Viewer, http.MethodGet, "/runs/{id}/entries", "Stream a run's facts and events, oldest first.", mediaLines, func(w http.ResponseWriter, r *http.Request) {
			entries := s.Entries
			if isSet(r, paramOutline) {
				entries = s.Outline
			}
			stream(w, r, func(after lattice.Seq, line func(any) error) error {
				return entries(r.Context(), idOf(r), after, func(e lattice.Entry) error { return line(e) })
			})
		}, after...),
		raw[WatchLine](Viewer, http.MethodGet, "/runs/{id}/watch", "Stream a run's entries and views until it is not driven.", mediaLines, func(w http.ResponseWriter, r *http.Request) {
			watch := s.Watch
			if isSet(r, paramOutline) {
				watch = s.WatchOutline
			}
			stream(w, r, func(after lattice.Seq, line func(any) error) error {
				return watch(r.Context(), idOf(r), after, func(l WatchLine) error { return line(l) })
			})
		}, after...),
		raw[empty](Viewer, http.MethodGet, "/runs/{id}/log", "Return the output of skills that is not an event.", mediaText, func(w http.ResponseWriter, r *http.Request) { sendLog(w, r, s) },
			Param{"offset", "integer", "skip so many bytes"}, Param{"node", "string", "only the output of this node; offset counts its bytes"}),
		raw[Update](Viewer, http.MethodGet, "/runs/{id}/events", "Stream the entries and views of a run as server-sent events. Last-Event-ID resumes.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendRunEvents(w, r, s) }, eventParams...),
		raw[Update](Viewer, http.MethodGet, "/events", "Stream the views of runs that change as server-sent events. Last-Event-ID resumes.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendUpdates(w, r, s) }, Param{"after", "integer", "only changes behind this sequence number"}),
	}
}

func sendLog(w http.ResponseWriter, r *http.Request, s Service) {
	offset, err := strconv.ParseInt("0"+r.FormValue("offset"), 10, 64)
	if err != nil {
		fail(w, fault.BadInput("bad_request", "offset must be a number of bytes"))
		return
	}
	log, err := s.Log(r.Context(), idOf(r), r.FormValue("node"), offset)
	if err != nil {
		fail(w, err)
		return
	}
	defer log.Close()
	w.Header().Set("Content-Type", mediaText)
	_, _ = io.Copy(w, log) // the client sees a cut body
}

// isSet reports whether a parameter of the query is true.
func isSet(r *http.Request, name string) bool {
	set, err := strconv.ParseBool(r.FormValue(name))
	return err == nil && set
}

// headerKey names the header with the key by which a request that comes twice counts once.
const headerKey = "Idempotency-Key"

// keyOf returns the key of a request: that of its body, else one made of the header and the person, in the alphabet of ids.
func keyOf(r *http.Request, body string) string {
	header := r.Header.Get(headerKey)
	if body != "" || header == "" {
		return body
	}
	sum := sha256.Sum256([]byte(caller.Of(r.Context()).String() + "\x00" + header))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
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
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() {
		v = []struct{}{} // an empty list is not null
	}
	w.Header().Set("Content-Type", mediaJSON)
	_ = json.NewEncoder(w).Encode(v) // the client sees a cut body
}

// stream answers with NDJSON. An error after the first line ends the stream with a problem line.
func stream(w http.ResponseWriter, r *http.Request, produce func(lattice.Seq, func(any) error) error) {
	after, err := strconv.ParseUint("0"+r.FormValue("after"), 10, 64)
	if err != nil {
		fail(w, fault.BadInput("bad_request", "after must be a sequence number"))
		return
	}
	limit, err := limitOf(r)
	if err != nil {
		fail(w, err)
		return
	}
	enc, lines := json.NewEncoder(w), 0
	flush := http.NewResponseController(w)
	err = produce(lattice.Seq(after), func(v any) error {
		if lines++; lines == 1 {
			w.Header().Set("Content-Type", mediaLines)
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		if lines == limit {
			return errLimit
		}
		return nil
	})
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errLimit):
	case lines > 0:
		_ = enc.Encode(asFault(err))
	default:
		fail(w, err)
	}
}

// errLimit ends a stream that has as many lines as were asked for.
var errLimit = errors.New("limit reached")

// AsFault returns the error that a person sees, with its code and its remedy.
func AsFault(err error) *fault.Error { return asFault(err) }

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
	protocol.ExitLimit: http.StatusInsufficientStorage, protocol.ExitWaiting: http.StatusAccepted, // recorded; other people must act as well
}

func fail(w http.ResponseWriter, err error) {
	p := asFault(err)
	WriteProblem(w, StatusOf(p), p)
}

// StatusOf returns the status of HTTP for an error.
func StatusOf(p *fault.Error) int {
	if status, ok := httpStatus[p.Exit]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Problem is the body of an answer without a result, as RFC 9457 has it: the error, and the status of HTTP.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	*fault.Error
}

// WriteProblem answers with an error and a status of HTTP.
func WriteProblem(w http.ResponseWriter, status int, p *fault.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{status, http.StatusText(status), p})
}

// Fail answers with a problem.
func Fail(w http.ResponseWriter, err error) { fail(w, err) }

// requester returns the name of the user who made a request. The name in the body counts only if the connection does not
// tell who it is.
func requester(ctx context.Context, body string) string {
	if who := caller.Of(ctx); who != nil {
		return who.String()
	}
	return body
}
