package exchange

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
)

// A Page is the part of a list that a request asks for: at most Limit items, which is never 0, after the item that Last names. "" is the first page.
type Page struct {
	Last  string
	Limit int
}

// Lengths of pages: of a request without a limit, and the longest one.
const (
	UsualLimit = 100
	MaxLimit   = 1000
)

// CodeListChanged is the code of the error for a cursor that names no item of the list, such as one that was removed.
const CodeListChanged = "list_changed"

// PageOf reads the page that a request asks for. cursor is the parameter that names the last item of the page before.
func PageOf(r *http.Request, cursor string) (Page, error) {
	limit, err := limitOf(r, UsualLimit)
	if limit == 0 || limit > MaxLimit {
		limit = MaxLimit
	}
	return Page{r.FormValue(cursor), limit}, err
}

// Cut cuts a page out of a whole list.
func Cut[T any](all []T, p Page, name func(T) string) ([]T, error) {
	if p.Last != "" {
		at := slices.IndexFunc(all, func(item T) bool { return name(item) == p.Last })
		if at < 0 {
			return nil, fault.BadInput(CodeListChanged, "the list does not have %.64q", p.Last).WithHint("read it from its first page")
		}
		all = all[at+1:]
	}
	return all[:min(p.Limit, len(all))], nil
}

// LinkNext names the page behind an item in the header Link: the same request with another cursor.
func LinkNext(w http.ResponseWriter, r *http.Request, cursor, last string) {
	q := r.URL.Query()
	q.Set(cursor, last)
	w.Header().Set("Link", "<"+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
}

// NextOf returns the query of the page that a header Link names, nil for none.
func NextOf(link string) (url.Values, error) {
	target, _, ok := strings.Cut(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	if !ok {
		return nil, nil
	}
	next, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("read the header Link: %w", err)
	}
	return next.Query(), nil
}
