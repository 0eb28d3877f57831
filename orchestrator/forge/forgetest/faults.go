package forgetest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A fault changes the answers to some requests.
type fault struct {
	method, part string // of the path
	times        int
	act          func(w http.ResponseWriter, r *http.Request, serve func())
}

// faults are the faults that a test asked for, and the number of requests that met them or not.
type faults struct {
	guard    sync.Mutex
	all      []*fault
	requests int
}

// Fail answers the next requests of a method whose path contains part with a status and headers, without performing them.
func (f *faults) Fail(method, part string, times, status int, header http.Header) {
	f.addFault(method, part, times, func(w http.ResponseWriter, _ *http.Request, _ func()) {
		for name, values := range header {
			w.Header()[name] = values
		}
		writeProblem(w, status, "it was told to fail")
	})
}

// LoseAnswer performs the next request whose path contains a part, and ends its connection without an answer. A part
// that ends with $ is the end of the path.
func (f *faults) LoseAnswer(method, part string) {
	f.addFault(method, part, 1, func(_ http.ResponseWriter, _ *http.Request, serve func()) {
		serve()
		panic(http.ErrAbortHandler)
	})
}

// HoldAnswer performs the next such request, closes reached, and gives no answer before the client is gone.
func (f *faults) HoldAnswer(method, part string) (reached <-chan struct{}) {
	done := make(chan struct{})
	f.addFault(method, part, 1, func(_ http.ResponseWriter, r *http.Request, serve func()) {
		serve()
		close(done)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	return done
}

func (f *faults) addFault(method, part string, times int, act func(http.ResponseWriter, *http.Request, func())) {
	f.guard.Lock()
	defer f.guard.Unlock()
	f.all = append(f.all, &fault{method, part, times, act})
}

// withFaults counts the requests, and applies the first fault that matches.
func (f *faults) withFaults(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.guard.Lock()
		f.requests++
		var hit *fault
		for _, one := range f.all {
			if one.times > 0 && one.method == r.Method && strings.Contains(r.URL.Path+"$", one.part) {
				one.times--
				hit = one
				break
			}
		}
		f.guard.Unlock()
		if hit == nil {
			next.ServeHTTP(w, r)
			return
		}
		hit.act(w, r, func() { next.ServeHTTP(httptest.NewRecorder(), r) })
	})
}

// countRequests returns how many requests there were.
func (f *faults) countRequests() int {
	f.guard.Lock()
	defer f.guard.Unlock()
	return f.requests
}
