package api

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
	"github.com/spritekit/lattice/spritekit/fault"
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
	Sandboxes
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
	// Tail is Watch that does not end when the run is not driven. Its items are shared with other readers.
	Tail(ctx context.Context, id string, after lattice.Seq, yield func([]*Item) error) error
	// Changes calls yield for each change behind a position, and then for each new one, until ctx or the leadership ends.
	Changes(ctx context.Context, after stream.Position, yield func(stream.Update) error) error
	Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) // go on with an interrupted run; a no-op when someone does
	Stop(ctx context.Context, id string) (RunView, error)                  // stop driving; the run stays resumable
	Cancel(ctx context.Context, id, by string) (RunView, error)
	Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error)
	// Log reads the output of skills that is not an event, of all nodes or of one.
	Log(ctx context.Context, id, node string, offset int64) (io.ReadCloser, error)
	// Scrub takes the keys that agents were handed over out of their files in a sprite.
	Scrub(ctx context.Context, sprite string) error
	// HandOver ends the leadership when it returns nil, and changes nothing when it does not or ctx ends.
	HandOver(ctx context.Context, to HandoverRequest) (Handover, error)
}

// paramOutline asks for an outline; a leader that does not know it answers with everything.
const paramOutline = "outline"

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
		w.Header().Set("Content-Type", exchange.MediaJSON)
		_, _ = io.WriteString(w, Description()) // the client sees a cut body
	})
	mux.HandleFunc("/api/", unknownRoute(routes))
	mux.HandleFunc("/v1/", unknownRoute(routes))
	return caller.RecordProgram(mux)
}

func leaderRoutes(s Service) []Route {
	return []Route{
		get("/lattice", "Describe the leader.", func(*http.Request) (Hello, error) { return s.Hello(), nil }),
		raw[Handover](Owner, http.MethodPost, "/lattice/handover", "End the leadership in favour of another process.", exchange.MediaJSON, func(w http.ResponseWriter, r *http.Request) {
			var in HandoverRequest
			if !exchange.Decode(w, r, &in, false) { // a newer lattice may say more

				return
			}
			if in.API < 1 || in.PID < 1 { // null, say
				exchange.Fail(w, fault.BadInput("bad_request", "a handover needs api and pid, of the lattice that leads next"))
				return
			}
			out, err := s.HandOver(r.Context(), in)
			exchange.Reply(w, out, err)
		}),
		post(Operator, "/sprites/{id}/scrub", "Remove the keys that agents were handed over from their files in a sprite.",
			func(r *http.Request, _ struct{}) (struct{}, error) {
				return struct{}{}, s.Scrub(r.Context(), r.PathValue("id"))
			}),
	}
}

func runRoutes(s Service) []Route {
	stretch := []Param{{"after", "integer", "only those behind this sequence number"}, {"limit", "integer", "at most so many lines"}, {paramOutline, "boolean", "a bounded number of events between two facts"}}
	return []Route{
		acceptKey(post(Admin, "/runs", "Start a run.", func(r *http.Request, in RunRequest) (RunView, error) {
			if in.Key == "" && r.Header.Get(headerKey) != "" {
				asked := in
				asked.Detach, asked.Values = false, Values{} // secrets do not count
				in.Key, in.Asked = keyOf(r, ""), exchange.Digest(asked)
			}
			return s.Start(r.Context(), in)
		})),
		list("/runs", "List runs, the newest first.", before, func(v RunView) string { return v.RunID }, func(r *http.Request, p exchange.Page) ([]RunView, error) {
			return s.Runs(r.Context(), readRunList(r, p))
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
		raw[lattice.Entry](Viewer, http.MethodGet, "/runs/{id}/entries", "Stream a run's facts and events, oldest first.", exchange.MediaLines, func(w http.ResponseWriter, r *http.Request) {
			entries := s.Entries
			if exchange.IsSet(r, paramOutline) {
				entries = s.Outline
			}
			exchange.Stream(w, r, 0, func(after lattice.Seq, line func(any) error) error {
				return entries(r.Context(), idOf(r), after, func(e lattice.Entry) error { return line(e) })
			})
		}, stretch...),
		raw[WatchLine](Viewer, http.MethodGet, "/runs/{id}/watch", "Stream a run's entries and views until it is not driven.", exchange.MediaLines, func(w http.ResponseWriter, r *http.Request) {
			watch := s.Watch
			if exchange.IsSet(r, paramOutline) {
				watch = s.WatchOutline
			}
			exchange.Stream(w, r, 0, func(after lattice.Seq, line func(any) error) error {
				return watch(r.Context(), idOf(r), after, func(l WatchLine) error { return line(l) })
			})
		}, stretch...),
		raw[empty](Viewer, http.MethodGet, "/runs/{id}/log", "Return the output of skills that is not an event.", mediaText, func(w http.ResponseWriter, r *http.Request) { sendLog(w, r, s) },
			Param{"offset", "integer", "skip so many bytes"}, Param{"node", "string", "only the output of this node; offset counts its bytes"}),
		raw[stream.Update](Viewer, http.MethodGet, "/runs/{id}/events", "Stream the entries and views of a run as server-sent events. Last-Event-ID resumes behind the entry with that id. A view has no id: it is the newest state, which each connection begins with after older entries.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendRunEvents(w, r, s) }, eventParams...),
		raw[stream.Update](Viewer, http.MethodGet, "/events", "Stream what changes as server-sent events: runs, intents, sprites, and events of code hosts. Last-Event-ID resumes behind the event with that id. An event without an id only says that a process drives a run, or not any more; it may come again.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendUpdates(w, r, s) }, Param{"after", "string", "only changes behind the event with this id, or behind this sequence number of the journal; the header Last-Event-ID wins"},
			Param{"types", "string", "only these, separated by commas: run.updated, intent.updated, sprite.updated, github.updated"}),
	}
}

func sendLog(w http.ResponseWriter, r *http.Request, s Service) {
	offset, err := strconv.ParseInt("0"+r.FormValue("offset"), 10, 64)
	if err != nil {
		exchange.Fail(w, fault.BadInput("bad_request", "offset must be a number of bytes"))
		return
	}
	log, err := s.Log(r.Context(), idOf(r), r.FormValue("node"), offset)
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	defer log.Close()
	w.Header().Set("Content-Type", mediaText)
	_, _ = io.Copy(w, log) // the client sees a cut body
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

// requester returns the name of the user who made a request. The name in the body counts only if the connection does not
// tell who it is.
func requester(ctx context.Context, body string) string {
	if who := caller.Of(ctx); who != nil {
		return who.String()
	}
	return body
}
