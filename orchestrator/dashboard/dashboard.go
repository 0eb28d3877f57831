// Package dashboard is the page of a leader: HTML about runs, and forms that decide. Start with [Dashboard.Serve].
//
//	dashboard  who may see and do which page; templates
//	runs       the list of runs, and the tabs of one
//	graph      the flow of a run as a picture, with its state
//	candidates attempts of a run side by side
//	files      the files of a run at a moment
//	waterfall  the steps of a run as bars: a pure fold of the timeline
//	waits      questions to a person, and forms for the answer
//	markdown   text of sprites and people as a few elements
//	loops      loops, with their iterations and tasks
//	tasks      the boards of repositories, with their workers
//	flows      flow documents, with an editor
//	lists      sprites, artifacts, proposals, intents, cost, the audit log and deliveries
//
// Each page is a read of the leader, and each form is an operation of package api with the same role: the page decides nothing.
// Text of sprites is hostile. The templates escape it, the page loads nothing from elsewhere, and its policy of content lets no
// script run but page.js, which builds elements and never parses HTML.
package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Assets serves the style and the script, which hold nothing about runs.
func Assets() http.Handler {
	served := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		served.ServeHTTP(w, r)
	})
}

// New returns the page of a leader.
func New(l Leader) *Dashboard {
	d := &Dashboard{leader: l, mux: http.NewServeMux()}
	for _, r := range d.allRoutes() {
		d.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { d.serveRoute(w, req, r) })
	}
	return d
}

func (d *Dashboard) allRoutes() []pageRoute {
	return slices.Concat(d.runRoutes(), d.waitRoutes(), d.travelRoutes(), d.fileRoutes(), boardPages{d}.routes(), d.loopRoutes(), flowPages{d}.routes(), listPages{d}.routes())
}

// Serve answers a request of a visitor.
func (d *Dashboard) Serve(w http.ResponseWriter, r *http.Request, v Visitor) {
	ctx := caller.With(context.WithValue(r.Context(), visitorKey{}, &v), v.Who)
	w.Header().Set("Content-Security-Policy", contentPolicy)
	if _, pattern := d.mux.Handler(r); pattern == "" {
		d.showError(&visit{&v, w, r, ctx}, fault.NotFound("no_page", "there is no page %.100q", r.URL.Path).WithHint("the menu lists the pages"))
		return
	}
	d.mux.ServeHTTP(w, r.WithContext(ctx))
}

// contentPolicy lets nothing in from elsewhere, and no script make elements out of text.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func (d *Dashboard) serveRoute(w http.ResponseWriter, r *http.Request, to pageRoute) {
	who, _ := r.Context().Value(visitorKey{}).(*Visitor)
	v := &visit{who, w, r, r.Context()}
	err := error(nil)
	if to.operation != "" && !v.Role.Includes(roleOf(to.operation)) {
		err = fault.Denied("role_missing", "this needs the role %s, and %s has the role %s", roleOf(to.operation), v.Who.Name, v.Role)
	}
	if err == nil {
		err = to.serve(v)
	}
	if err != nil {
		d.showError(v, err)
	}
}

// ServeLogin answers with the form of the login, and why the last one failed.
func (d *Dashboard) ServeLogin(w http.ResponseWriter, r *http.Request, status int, problem string) {
	page := struct{ Next, Problem string }{cmp.Or(r.FormValue("next"), "/"), problem}
	if err := d.write(w, r, "login", status, frame{Title: "Log in", Page: page}); err != nil {
		exchange.Fail(w, err)
	}
}
