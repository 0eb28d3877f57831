package main

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// servePages serves the files of a folder of the script as pages of the web: pages DIR. Sprites with $PAGES_PORT as a port of the
// host find them at $PAGES. /to/ADDRESS redirects to an address.
func servePages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pages DIR")
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	mux.HandleFunc("/to/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/to/"), http.StatusFound)
	})
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	ts.Setenv("PAGES_PORT", port)
	ts.Setenv("PAGES", "http://host.lattice.internal:"+port)
}
