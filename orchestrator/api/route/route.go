// Package route describes the operations of the leader's interface as values: the path, the role and the types of each with the
// function that serves it. Get, List, ListAll, Post and Raw make a Route from a function; Route.ServeHTTP refuses parameters that it
// does not have. The table of the routes is api.Routes.
package route

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Root is the path below which the interface lies.
const Root = "/api/v1"

// Role is the right to use a route. A user of the socket, who owns the state directory, has all of them.
type Role string

const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // starts, stops and decides
	Admin    Role = "admin"    // does all that the owner of the state directory may do
	Owner    Role = "owner"    // the owner, over the socket alone
)

// Roles lists the roles, each of which includes those before it.
func Roles() []Role { return []Role{Viewer, Operator, Admin, Owner} }

// Includes reports whether r includes the rights of o.
func (r Role) Includes(o Role) bool {
	return slices.Contains(Roles(), r) && slices.Index(Roles(), r) >= slices.Index(Roles(), o)
}

// Route describes one operation of the interface.
type Route struct {
	Method, Path string
	Summary      string
	Role         Role
	Params       []Param
	In, Out      reflect.Type // bodies, nil for none; Out of a stream is one line or event
	Media        string       // of the answer
	Keyed        bool         // accepts the header Idempotency-Key
	Serve        http.HandlerFunc
}

// Param is a parameter of the query.
type Param struct{ Name, Type, Summary string }

// String describes a parameter that is text.
func String(name, summary string) Param { return Param{name, "string", summary} }

// Int describes a parameter that is a whole number.
func Int(name, summary string) Param { return Param{name, "integer", summary} }

// Bool describes a parameter that is true or false.
func Bool(name, summary string) Param { return Param{name, "boolean", summary} }

// Parameters that name the last item of the page before: of lists with the newest first, and of all others.
const (
	Before = "before"
	After  = "after"
)

// Get makes a route that answers with the result of a function.
func Get[Out any](path, summary string, answer func(*http.Request) (Out, error), params ...Param) Route {
	return Route{Method: http.MethodGet, Path: Root + path, Summary: summary, Role: Viewer, Params: params, Out: reflect.TypeFor[Out](), Media: exchange.MediaJSON,
		Serve: func(w http.ResponseWriter, r *http.Request) {
			out, err := answer(r)
			exchange.Reply(w, out, err)
		}}
}

// List makes a route that answers with a page of a list.
func List[T any](path, summary, cursor string, name func(T) string, read func(*http.Request, exchange.Page) ([]T, error), params ...Param) Route {
	return Raw[[]T](Viewer, http.MethodGet, path, summary+" A header Link names the next page, which may be empty.", exchange.MediaJSON, func(w http.ResponseWriter, r *http.Request) {
		var out []T
		p, err := exchange.PageOf(r, cursor)
		if err == nil {
			out, err = read(r, p)
		}
		if err == nil && len(out) > 0 && len(out) == p.Limit {
			exchange.LinkNext(w, r, cursor, name(out[len(out)-1]))
		}
		exchange.Reply(w, out, err)
	}, slices.Concat(params, PageParams(cursor))...)
}

// PageParams describes the parameters that select a page of a list.
func PageParams(cursor string) []Param {
	return []Param{Int("limit", "at most so many, by default 100 and never more than 1000"), String(cursor, "only those that follow this one in the list; the header Link has it")}
}

// ListAll is List for a list that is read as a whole.
func ListAll[T any](path, summary, cursor string, name func(T) string, read func(*http.Request) ([]T, error), params ...Param) Route {
	return List(path, summary, cursor, name, func(r *http.Request, p exchange.Page) ([]T, error) {
		all, err := read(r)
		if err != nil {
			return nil, err
		}
		return exchange.Cut(all, p, name)
	}, params...)
}

// Post makes a route whose function gets the body, which is read strictly.
func Post[In, Out any](role Role, path, summary string, act func(*http.Request, In) (Out, error), params ...Param) Route {
	return Route{Method: http.MethodPost, Path: Root + path, Summary: summary, Role: role, Params: params, In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](), Media: exchange.MediaJSON,
		Serve: func(w http.ResponseWriter, r *http.Request) {
			var in In
			if exchange.Read(w, r, &in) {
				out, err := act(r, in)
				exchange.Reply(w, out, err)
			}
		}}
}

// Raw makes a route that writes its answer itself. Out is a line or an event of it, or Bytes.
func Raw[Out any](role Role, method, path, summary, media string, serve http.HandlerFunc, params ...Param) Route {
	r := Route{Method: method, Path: Root + path, Summary: summary, Role: role, Params: params, Media: media, Serve: serve}
	if t := reflect.TypeFor[Out](); t != reflect.TypeFor[Bytes]() {
		r.Out = t
	}
	return r
}

// Bytes stands for an answer that is not described further.
type Bytes struct{}

// AcceptKey marks a route that accepts the header Idempotency-Key.
func AcceptKey(r Route) Route {
	r.Keyed = true
	return r
}

// Latest stands in a path for the newest run, intent or proposal, and for the only wait.
const Latest = "latest"

// ID returns the id in the path of a request; "" for the newest.
func ID(r *http.Request) string {
	if id := r.PathValue("id"); id != Latest {
		return id
	}
	return ""
}

// ServeHTTP refuses parameters that would be ignored, and serves the others. A body is never read as a form.
func (route Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, err := exchange.QueryOf(r)
	for name, values := range query {
		at := slices.IndexFunc(route.Params, func(p Param) bool { return p.Name == name })
		switch {
		case at < 0:
			err = fault.BadInput("bad_request", "%s %s has no parameter %q", route.Method, route.Path, name).WithHint("GET %s/openapi.json lists the parameters", Root)
		case route.Params[at].Type == "boolean" && values[0] != "true" && values[0] != "false":
			err = fault.BadInput("bad_request", "%s is true or false, not %q", name, values[0])
		}
	}
	if err != nil {
		exchange.Fail(w, err)
		return
	}
	route.Serve(w, r)
}

// ServeUnknown answers requests that match none of routes.
func ServeUnknown(routes []Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if allowed := methodsOf(routes, r.URL.EscapedPath()); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			exchange.WriteProblem(w, http.StatusMethodNotAllowed, fault.BadInput("bad_request", "%s is not a method of %s, which has %s", r.Method, r.URL.Path, strings.Join(allowed, " and ")))
			return
		}
		exchange.Fail(w, fault.NotFound("no_route", "the interface has no %s", r.URL.Path).WithHint("GET %s/openapi.json lists its routes", Root))
	}
}

// methodsOf lists the methods that routes have at a path.
func methodsOf(routes []Route, path string) (methods []string) {
	for _, r := range routes {
		if exchange.Matches(r.Path, path) {
			methods = append(methods, r.Method)
		}
	}
	return methods
}

// Find returns the route of a request, to check rights before it is served.
func Find(routes []Route, method, path string) (Route, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	at := slices.IndexFunc(routes, func(r Route) bool { return r.Method == method && exchange.Matches(r.Path, path) })
	if at < 0 {
		return Route{}, false
	}
	return routes[at], true
}

// HeaderKey names the header with the key by which a request that comes twice counts once.
const HeaderKey = "Idempotency-Key"

// Key returns the key of a request: that of its body, else one made of the header and the person, in the alphabet of ids.
func Key(r *http.Request, body string) string {
	header := r.Header.Get(HeaderKey)
	if body != "" || header == "" {
		return body
	}
	sum := sha256.Sum256([]byte(caller.Of(r.Context()).String() + "\x00" + header))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// Requester returns the name of the user who made a request. The name in the body counts only if the connection does not
// tell who it is.
func Requester(ctx context.Context, body string) string {
	if who := caller.Of(ctx); who != nil {
		return who.String()
	}
	return body
}
