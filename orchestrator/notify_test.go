package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveReceiver starts a server that appends each request to FILE as a line of JSON, answers with the statuses in turn
// (the last one for ever) and is found at $RECEIVER: receiver FILE STATUS…
func serveReceiver(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: receiver FILE STATUS…")
	}
	var statuses []int
	for _, arg := range args[1:] {
		status, err := strconv.Atoi(arg)
		ts.Check(err)
		statuses = append(statuses, status)
	}
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	var mu sync.Mutex
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender ended
		}
		status := statuses[min(n, len(statuses)-1)]
		n++
		line, _ := json.Marshal(map[string]any{"path": r.URL.Path, "id": r.Header.Get("Webhook-Id"), "signature": r.Header.Get("Webhook-Signature"), "status": status, "body": json.RawMessage(body)})
		fmt.Fprintf(file, "%s\n", line)
		w.WriteHeader(status)
	}))
	ts.Defer(func() { s.Close(); file.Close() })
	ts.Setenv("RECEIVER", s.URL)
}
