package exchange

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Matches reports whether a path is one of the pattern's, in which {name} stands for one segment.
func Matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return len(want) == len(got) && !slices.ContainsFunc(want, func(segment string) bool {
		have := got[0]
		got = got[1:]
		return segment != have && !strings.HasPrefix(segment, "{")
	})
}

// QueryOf returns the parameters of a request, each of which comes once, as those that r.FormValue returns from then on.
func QueryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.BadInput("bad_request", "read the query: %v", err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return nil, fault.BadInput("bad_request", "the parameter %q is given twice", name)
		}
	}
	r.Form, r.PostForm = query, url.Values{}
	return query, nil
}

// HeaderLast names the header with the id of the last event that a reader has.
const HeaderLast = "Last-Event-ID"

// PositionOf returns the position behind which a reader wants events.
func PositionOf(r *http.Request) (lattice.Seq, error) {
	text := r.Header.Get(HeaderLast)
	if text == "" {
		text = "0" + r.FormValue("after")
	}
	after, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fault.BadInput("bad_request", "after and Last-Event-ID are sequence numbers")
	}
	return lattice.Seq(after), nil
}

// IsSet reports whether a parameter of the query is true.
func IsSet(r *http.Request, name string) bool {
	return r.FormValue(name) == "true"
}
