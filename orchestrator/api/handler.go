package api

import (
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
	"github.com/spritekit/lattice/spritekit/fault"
)

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
		mux.Handle(r.Method+" "+r.Path, r)
		if settled, ok := strings.CutPrefix(r.Path, Root+"/lattice"); ok {
			mux.Handle(r.Method+" "+settleRoot+"/lattice"+settled, r)
		}
	}
	mux.HandleFunc("GET "+Root+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", exchange.MediaJSON)
		_, _ = io.WriteString(w, Description()) // the client sees a cut body
	})
	mux.HandleFunc("/api/", route.ServeUnknown(routes))
	mux.HandleFunc("/v1/", route.ServeUnknown(routes))
	return caller.RecordProgram(mux)
}

func leaderRoutes(s Service) []route.Route {
	return []route.Route{
		route.Get("/lattice", "Describe the leader.", func(*http.Request) (Hello, error) { return s.Hello(), nil }),
		route.Raw[Handover](route.Owner, http.MethodPost, "/lattice/handover", "End the leadership in favour of another process.", exchange.MediaJSON, func(w http.ResponseWriter, r *http.Request) {
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
		route.Post(route.Operator, "/sprites/{id}/scrub", "Remove the keys that agents were handed over from their files in a sprite.",
			func(r *http.Request, _ struct{}) (struct{}, error) {
				return struct{}{}, s.Scrub(r.Context(), r.PathValue("id"))
			}),
	}
}

func runRoutes(s Service) []route.Route {
	stretch := []route.Param{route.Int("after", "only those behind this sequence number"), route.Int("limit", "at most so many lines"), route.Bool(paramOutline, "a bounded number of events between two facts")}
	return []route.Route{
		route.AcceptKey(route.Post(route.Admin, "/runs", "Start a run.", func(r *http.Request, in RunRequest) (RunView, error) {
			if in.Key == "" && r.Header.Get(route.HeaderKey) != "" {
				asked := in
				asked.Detach, asked.Values = false, Values{} // secrets do not count
				in.Key, in.Asked = route.Key(r, ""), exchange.Digest(asked)
			}
			return s.Start(r.Context(), in)
		})),
		route.List("/runs", "List runs, the newest first.", route.Before, func(v RunView) string { return v.RunID }, func(r *http.Request, p exchange.Page) ([]RunView, error) {
			return s.Runs(r.Context(), readRunList(r, p))
		}, runListParams...),
		route.Get("/runs/{id}", "Return a run. The id may be the beginning of one, or latest.", func(r *http.Request) (RunView, error) { return s.Run(r.Context(), route.ID(r)) }),
		route.Get("/runs/{id}/program", "Return the ExecIR document that a run executes.", func(r *http.Request) (json.RawMessage, error) { return s.Program(r.Context(), route.ID(r)) }),
		route.Post(route.Operator, "/runs/{id}/drive", "Go on with an interrupted run.", func(r *http.Request, in DriveRequest) (RunView, error) { return s.Drive(r.Context(), route.ID(r), in) }),
		route.Post(route.Operator, "/runs/{id}/stop", "Stop driving a run; it stays resumable.", func(r *http.Request, _ struct{}) (RunView, error) { return s.Stop(r.Context(), route.ID(r)) }),
		route.Post(route.Operator, "/runs/{id}/cancel", "End a run for good.", func(r *http.Request, in CancelRequest) (RunView, error) {
			return s.Cancel(r.Context(), route.ID(r), route.Requester(r.Context(), in.By))
		}),
		route.Post(route.Operator, "/runs/{id}/decide", "Answer, approve or reject that for which a run waits.", func(r *http.Request, in DecideRequest) (DecideReply, error) {
			in.By = route.Requester(r.Context(), in.By)
			return s.Decide(r.Context(), route.ID(r), in)
		}),
		route.Raw[lattice.Entry](route.Viewer, http.MethodGet, "/runs/{id}/entries", "Stream a run's facts and events, oldest first.", exchange.MediaLines, func(w http.ResponseWriter, r *http.Request) {
			entries := s.Entries
			if exchange.IsSet(r, paramOutline) {
				entries = s.Outline
			}
			exchange.Stream(w, r, 0, func(after lattice.Seq, line func(any) error) error {
				return entries(r.Context(), route.ID(r), after, func(e lattice.Entry) error { return line(e) })
			})
		}, stretch...),
		route.Raw[WatchLine](route.Viewer, http.MethodGet, "/runs/{id}/watch", "Stream a run's entries and views until it is not driven.", exchange.MediaLines, func(w http.ResponseWriter, r *http.Request) {
			watch := s.Watch
			if exchange.IsSet(r, paramOutline) {
				watch = s.WatchOutline
			}
			exchange.Stream(w, r, 0, func(after lattice.Seq, line func(any) error) error {
				return watch(r.Context(), route.ID(r), after, func(l WatchLine) error { return line(l) })
			})
		}, stretch...),
		route.Raw[route.Bytes](route.Viewer, http.MethodGet, "/runs/{id}/log", "Return the output of skills that is not an event.", mediaText, func(w http.ResponseWriter, r *http.Request) { sendLog(w, r, s) },
			route.Int("offset", "skip so many bytes"), route.String("node", "only the output of this node; offset counts its bytes")),
		route.Raw[stream.Update](route.Viewer, http.MethodGet, "/runs/{id}/events", "Stream the entries and views of a run as server-sent events. Last-Event-ID resumes behind the entry with that id. A view has no id: it is the newest state, which each connection begins with after older entries.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendRunEvents(w, r, s) }, eventParams...),
		route.Raw[stream.Update](route.Viewer, http.MethodGet, "/events", "Stream what changes as server-sent events: runs, intents, sprites, and events of code hosts. Last-Event-ID resumes behind the event with that id. An event without an id only says that a process drives a run, or not any more; it may come again.", sse.Media,
			func(w http.ResponseWriter, r *http.Request) { sendUpdates(w, r, s) }, route.String("after", "only changes behind the event with this id, or behind this sequence number of the journal; the header Last-Event-ID wins"),
			route.String("types", "only these, separated by commas: run.updated, intent.updated, sprite.updated, github.updated")),
	}
}

func sendLog(w http.ResponseWriter, r *http.Request, s Service) {
	offset, err := strconv.ParseInt("0"+r.FormValue("offset"), 10, 64)
	if err != nil {
		exchange.Fail(w, fault.BadInput("bad_request", "offset must be a number of bytes"))
		return
	}
	log, err := s.Log(r.Context(), route.ID(r), r.FormValue("node"), offset)
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	defer log.Close()
	w.Header().Set("Content-Type", mediaText)
	_, _ = io.Copy(w, log) // the client sees a cut body
}

// Media types of answers.
const (
	mediaText  = "text/plain; charset=utf-8"
	mediaBytes = "application/octet-stream"
	mediaTar   = "application/x-tar"
)

// Routes lists the operations on s, which may be nil if none is served.
func Routes(s Service) []route.Route {
	return slices.Concat(
		leaderRoutes(s), runRoutes(s), travelRoutes(s), reviewRoutes(s), candidateRoutes(s), pastFileRoutes(s), actionRoutes(s), artifactRoutes(s), intentRoutes(s),
		proposalRoutes(s), scheduleRoutes(s), secretRoutes(s), auditRoutes(s), budgetRoutes(s), accessRoutes(s), deliveryRoutes(s), boardRoutes(s), loopRoutes(s), storageRoutes(s),
		fleetRoutes(s), flowRoutes(s), usageRoutes(s), approvalRoutes(s), sandboxRoutes(s),
	)
}

//go:embed openapi.json
var description string

// Description returns the OpenAPI description of the interface, which make schema writes from the table of routes.
func Description() string { return description }
