// Package web serves a leader over TCP: its page to browsers with sessions, and its interface to callers with tokens as well.
// Start with [Handler].
//
// The requests go to the handler that serves the commands, and to package dashboard. Before that, this package checks the token
// or the session of each request and its role. It decides nothing about runs.
package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/dashboard"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/access"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Leader is the leader that is served.
type Leader interface {
	dashboard.Leader
	Handler() http.Handler
	Hello() api.Hello
	CountAppended() []lattice.EntryCount
	CountReads() uint64
	CheckToken(ctx context.Context, text string) (c access.Caller, ok bool, wait time.Duration, err error)
	BeginSession(ctx context.Context, secret string) (s access.Session, ok bool, wait time.Duration, err error)
	CheckSession(ctx context.Context, text string) (c access.Caller, ok bool, err error)
	EndSession(ctx context.Context, text string) error
	// RecordRefused records that a request was refused whose caller is not known, or which the page of another site may have sent.
	RecordRefused(ctx context.Context, code, from string) error
	// RecordWrite records a request that may change something, with the status and the code of its refusal.
	RecordWrite(r *http.Request, status int, code string) error
	// ReceiveHook takes the delivery of a code host in a request. It checks its signature.
	ReceiveHook(w http.ResponseWriter, r *http.Request, forge string) error
}

// CheckAddress refuses an address that other machines reach if nothing is encrypted.
func CheckAddress(address string, encrypted, anywhere bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fault.BadInput("bad_address", "%q is not an address to serve: %v", address, err).WithHint("lattice serve --http 127.0.0.1:8080")
	}
	if ip := net.ParseIP(host); encrypted || anywhere || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fault.Denied("address_open", "%s can be reached from other machines, and tokens would cross the network unencrypted", address).WithHint("add --tls-cert and --tls-key, serve 127.0.0.1 behind a proxy with TLS, or add --http-anywhere")
}

// Handler serves l. With local it refuses requests whose header Host is not a loopback address: a foreign web page could send
// them.
//
// The handler tools serves the Model Context Protocol to callers with tokens; nil serves none. It acts with the token of its
// request.
func Handler(l Leader, tools http.Handler, local bool) http.Handler {
	s := &server{leader: l, routes: api.Routes(nil), local: local, page: dashboard.New(l)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.reportReady)
	mux.HandleFunc("GET /metrics", s.requireRole(s.writeMetrics))
	mux.HandleFunc("POST "+hooks+"{forge}", s.receiveHook)
	for _, path := range []string{"/api/", "/v1/sprites", "/v1/sprites/", "/v1/images", "/v1/images/"} {
		mux.HandleFunc(path, s.requireRole(l.Handler().ServeHTTP))
	}
	mux.HandleFunc("/v1/", s.requireRole(refuseRoute)) // also the hand-over, which is for the owner
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", "GET, HEAD")
			exchange.WriteProblem(w, http.StatusMethodNotAllowed, fault.BadInput("bad_request", "%s is not a method of %s, which has GET", r.Method, r.URL.Path))
		})
	}
	if tools != nil {
		mux.HandleFunc(toolsPath, s.requireToken(tools.ServeHTTP))
	}
	mux.Handle("GET "+dashboard.AssetRoot, dashboard.Assets())
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { s.page.ServeLogin(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("/", s.servePage)
	return s.guardRequests(mux)
}

func refuseRoute(w http.ResponseWriter, r *http.Request) {
	exchange.Fail(w, fault.NotFound("no_route", "the interface has no %s", r.URL.Path).WithHint("GET %s/openapi.json lists its routes", api.Root))
}

type server struct {
	leader Leader
	routes []route.Route
	local  bool
	page   *dashboard.Dashboard
}

// guardRequests sets the headers of every answer, and refuses requests that a browser sends for another site.
func (s *server) guardRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			w.Header().Set(name, value)
		}
		if s.local && !isLocal(r.Host) && !(r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, hooks)) { // a web page cannot sign a delivery
			s.refuse(w, r, r.Host, fault.Denied("foreign_host", "this server is not %.100q", r.Host).WithHint("use the address that lattice serve printed"))
			return
		}
		if !isOwnOrigin(r) {
			s.refuse(w, r, r.Header.Get("Origin"), fault.Denied("foreign_origin", "the page of another site sent the request"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that the page of another site may have sent, and records it.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, from string, p *fault.Error) {
	if err := s.leader.RecordRefused(r.Context(), p.Code, from); err != nil {
		exchange.Fail(w, err)
		return
	}
	exchange.Fail(w, p)
}

// isOwnOrigin reports whether a request comes from a page of this server, or from no page. A link of another site may lead here;
// the browser sends no cookie with it.
func isOwnOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && (r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate") {
		return false
	}
	origin := r.Header.Get("Origin")
	_, host, ok := strings.Cut(origin, "://")
	return origin == "" || ok && host == r.Host
}

// hooks is the path below which code hosts deliver events, each under its name in the settings.
const hooks = "/hooks/"

// receiveHook answers a delivery when it is kept, before it is handled. It has a signature in place of a token.
func (s *server) receiveHook(w http.ResponseWriter, r *http.Request) {
	if err := s.leader.ReceiveHook(w, r, r.PathValue("forge")); err != nil {
		exchange.Fail(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// isLocal reports whether a header Host names this machine by itself.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// requireRole serves requests whose token or session allows them, as the caller with it.
func (s *server) requireRole(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := s.findCaller(w, r)
		switch {
		case !ok:
		case !c.Role.Includes(s.findRole(r)):
			if !isRead(r) {
				if err := s.leader.RecordWrite(r.WithContext(caller.With(r.Context(), c.Who)), http.StatusForbidden, "role_missing"); err != nil {
					exchange.Fail(w, err)
					return
				}
			}
			exchange.Fail(w, fault.Denied("role_missing", "%s %s needs the role %s, and %s has the role %s", r.Method, r.URL.Path, s.findRole(r), c.Who.Name, c.Role))
		default:
			next(w, r.WithContext(caller.With(r.Context(), c.Who)))
		}
	}
}

// toolsPath is the path at which the Model Context Protocol is served.
const toolsPath = "/mcp"

// requireToken is requireRole for requests with tokens alone: a browser's session is not enough.
func (s *server) requireToken(next http.HandlerFunc) http.HandlerFunc {
	guarded := s.requireRole(next)
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Cookie")
		guarded(w, r)
	}
}

// findCaller returns the caller with the token or the session of a request, or answers why there is none.
func (s *server) findCaller(w http.ResponseWriter, r *http.Request) (access.Caller, bool) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		if c, ok := s.findSession(w, r); ok {
			return c, true
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.refuseUnknown(w, r, http.StatusUnauthorized, fault.Denied("token_missing", "the request has no token").WithHint("lattice token create NAME, then send: Authorization: Bearer TOKEN"))
		return access.Caller{}, false
	}
	c, ok, wait, err := s.leader.CheckToken(r.Context(), text)
	if err != nil {
		exchange.Fail(w, err)
		return c, false
	}
	if !ok {
		status, p := explainRefusal(w, wait)
		s.refuseUnknown(w, r, status, p)
	}
	return c, ok
}

// refuseUnknown answers a request whose caller is not known. It records one that may change something.
func (s *server) refuseUnknown(w http.ResponseWriter, r *http.Request, status int, p *fault.Error) {
	if !isRead(r) {
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		if err == nil {
			err = s.leader.RecordRefused(r.Context(), p.Code, from)
		}
		if err != nil {
			exchange.Fail(w, err)
			return
		}
	}
	exchange.WriteProblem(w, status, p)
}

// explainRefusal returns the answer to a wrong token, after which the next one has to wait.
func explainRefusal(w http.ResponseWriter, wait time.Duration) (int, *fault.Error) {
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		return http.StatusTooManyRequests, fault.Busy("token_attempts", "there were too many wrong tokens")
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	return http.StatusUnauthorized, fault.Denied("token_wrong", "the token does not exist, was revoked or has expired").WithHint("lattice token ls")
}

// findRole returns the role that a request needs. Viewers may list sprites; other requests about sprites need an admin.
func (s *server) findRole(r *http.Request) route.Role {
	path := r.URL.EscapedPath()
	if found, ok := route.Find(s.routes, r.Method, path); ok {
		return found.Role
	}
	switch name, below := strings.CutPrefix(path, "/v1/sprites"); {
	case below && r.Method == http.MethodGet && strings.Count(name, "/") <= 1, path == "/metrics", path == toolsPath, path == api.Root+"/openapi.json":
		return route.Viewer
	case strings.HasPrefix(path, "/v1/"), strings.HasPrefix(path, api.Root+"/"):
		return route.Admin
	}
	return route.Owner // it is not served here
}

// reportReady answers whether the leader accepts new work.
func (s *server) reportReady(w http.ResponseWriter, _ *http.Request) {
	if s.leader.Hello().Ending {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "ending\n")
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// writeMetrics writes figures in the text format of Prometheus. The cost grows with the number of open runs, not of ended ones.
func (s *server) writeMetrics(w http.ResponseWriter, r *http.Request) {
	open, err := s.leader.Runs(r.Context(), api.RunList{Open: true})
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	hello, waits, byStatus := s.leader.Hello(), 0, map[lattice.RunStatus]int{}
	for _, v := range open {
		byStatus[v.Status]++
		waits += len(v.Waits)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	gauge := func(name, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	gauge("lattice_build_info", "The build that leads.")
	fmt.Fprintf(w, "lattice_build_info{version=%q} 1\n", hello.Version)
	gauge("lattice_runs_stored", "Runs in the store.")
	fmt.Fprintf(w, "lattice_runs_stored %d\n", hello.Runs)
	gauge("lattice_runs_driven", "Runs that the leader works on.")
	fmt.Fprintf(w, "lattice_runs_driven %d\n", hello.Driven)
	gauge("lattice_runs_open", "Runs that have not ended, by status.")
	for _, status := range []lattice.RunStatus{lattice.Pending, lattice.Running, lattice.Waiting, lattice.Blocked, lattice.BlockedWaitingForUser} {
		fmt.Fprintf(w, "lattice_runs_open{status=%q} %d\n", status, byStatus[status])
	}
	gauge("lattice_waits_open", "Questions and approvals that wait for a person.")
	fmt.Fprintf(w, "lattice_waits_open %d\n", waits)
	fmt.Fprint(w, "# HELP lattice_entries_total Facts, events and audit entries that were recorded since the leader started, by kind and type.\n# TYPE lattice_entries_total counter\n")
	for _, c := range s.leader.CountAppended() {
		fmt.Fprintf(w, "lattice_entries_total{kind=%q,type=%q} %d\n", c.Kind, c.Type, c.Count)
	}
	fmt.Fprint(w, "# HELP lattice_store_reads_total Keys of the store that were looked up or passed since the leader started.\n# TYPE lattice_store_reads_total counter\n")
	fmt.Fprintf(w, "lattice_store_reads_total %d\n", s.leader.CountReads())
}
