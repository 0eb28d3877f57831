package exchange

import (
	"net/http"
	"slices"

	"github.com/spritekit/lattice/spritekit/fault"
)

// A Page is the part of a list that a request asks for: at most Limit items, 0 for all, after the item that Last names. "" is the first page.
type Page struct {
	Last  string
	Limit int
}

// UsualLimit is the length of the pages of a request that asks for none.
const UsualLimit = 100

// PageOf reads the page that a request asks for. cursor is the parameter that names the last item of the page before.
func PageOf(r *http.Request, cursor string) (Page, error) {
	limit, err := limitOf(r, UsualLimit)
	return Page{r.FormValue(cursor), limit}, err
}

// Cut cuts a page out of a whole list.
func Cut[T any](all []T, p Page, name func(T) string) ([]T, error) {
	if p.Last != "" {
		at := slices.IndexFunc(all, func(item T) bool { return name(item) == p.Last })
		if at < 0 {
			return nil, fault.BadInput("bad_request", "the list does not have %.64q", p.Last).WithHint("read it from its first page")
		}
		all = all[at+1:]
	}
	if p.Limit > 0 {
		all = all[:min(p.Limit, len(all))]
	}
	return all, nil
}

// LinkNext names the page behind an item in the header Link: the same request with another cursor.
func LinkNext(w http.ResponseWriter, r *http.Request, cursor, last string) {
	q := r.URL.Query()
	q.Set(cursor, last)
	w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
}
