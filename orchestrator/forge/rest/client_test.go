package rest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestNextPage checks that the next page is found in one Link header and in several, such as one that a proxy adds.
func TestNextPage(t *testing.T) {
	t.Parallel()
	const next, last = `<https://a.example/x?page=2>; rel="next"`, `<https://a.example/x?page=9>; rel="last"`
	for name, tt := range map[string]struct {
		links []string
		want  string
	}{
		"none":            {nil, ""},
		"the last page":   {[]string{`<https://a.example/x?page=1>; rel="first"`}, ""},
		"one line":        {[]string{last + ", " + next}, "https://a.example/x?page=2"},
		"two lines":       {[]string{last, next}, "https://a.example/x?page=2"},
		"a proxy's first": {[]string{`</style.css>; rel="preload"; as="style"`, next + ", " + last}, "https://a.example/x?page=2"},
		"not closed":      {[]string{`<https://a.example/x; rel="next"`}, ""},
	} {
		if got := nextPage(http.Header{"Link": tt.links}); got != tt.want {
			t.Errorf("%s: nextPage = %q, want %q", name, got, tt.want)
		}
	}
}

// TestAnswers has answers with the status 200 in the place of an object and of a list.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type object struct {
		ID int `json:"id"`
	}
	for answer, want := range map[string]struct{ object, list, none bool }{ // whether it is one
		`{"id":1}`:   {object: true, none: true},
		`[{"id":1}]`: {list: true, none: true},
		`null`:       {list: true, none: true},
		"":           {none: true},
		" \n":        {none: true},
		"<html>":     {none: true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		c := New(Options{
			Base: server.URL, Scheme: "token", Now: time.Now, Token: func(context.Context) (string, error) { return "t", nil },
			Sleep: func(context.Context, time.Duration) error { return nil },
		})
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			var one object
			if err := c.Do(t.Context(), method, "/one", nil, &one); (err == nil) != want.object {
				t.Errorf("%s: an object of %q: %+v, %v", method, answer, one, err)
			}
			if err := c.Do(t.Context(), method, "/none", nil, nil); (err == nil) != want.none {
				t.Errorf("%s: without a result, %q: %v", method, answer, err)
			}
		}
		var all []object
		err := List(t.Context(), c, "/all", nil, func(o object) { all = append(all, o) })
		if (err == nil) != want.list {
			t.Errorf("a list of %q: %+v, %v", answer, all, err)
		}
		server.Close()
	}
}
