// Package llmtest is a model server for tests: it speaks OpenAI's chat completions and Anthropic's Messages over real
// HTTP, streamed or whole, and answers from a script, faults included. Start with Serve, or with Server as a handler.
//
//	POST …/chat/completions, POST …/messages ──► the step of the script that is next for this model ──► answer or fault
//
// Each model has a script of its own, found by the model's name in the request; after its last step a model repeats that
// one. Every request is kept for assertions, with the key that came along.
package llmtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Script holds the answers of models, by the name of the model.
type Script map[string][]Step

// Step is one answer, or a fault in its place.
type Step struct {
	Text string `json:"text,omitempty"`
	In   int    `json:"in,omitempty"`  // tokens reported as read; default 100
	Out  int    `json:"out,omitempty"` // tokens reported as written; default 10

	Status     int    `json:"status,omitempty"`      // an HTTP error instead of an answer
	Message    string `json:"message,omitempty"`     // of the error; "{key}" is the key that the request brought
	RetryAfter string `json:"retry_after,omitempty"` // header of the error
	End        string `json:"end,omitempty"`         // how the model stops: "" | length | refusal
	Fault      Fault  `json:"fault,omitempty"`
	Whole      bool   `json:"whole,omitempty"` // not streamed, even if a stream was asked for
	Uncounted  bool   `json:"uncounted,omitempty"`
}

// Fault is something that a server should not do.
type Fault string

const (
	Cut     Fault = "cut"     // the connection ends in the middle of the answer
	Garbage Fault = "garbage" // the answer is not JSON
	Stall   Fault = "stall"   // the answer begins and nothing follows, until the client gives up
	Broken  Fault = "broken"  // an error event in the middle of the stream
	Endless Fault = "endless" // text without end
)

// Request is a request of a client.
type Request struct {
	Path, Key, Model, System, User string
	Body                           json.RawMessage
}

// Server answers. It is safe for concurrent use.
type Server struct {
	URL string // of an httptest server; "" for a handler that others serve

	script Script
	say    func(Request) Step // in place of the script

	mu       sync.Mutex
	requests []Request      // guarded by mu, as next
	next     map[string]int // step of each model
}

// New makes a handler.
func New(script Script) *Server { return &Server{script: script, next: map[string]int{}} }

// NewFunc makes a handler that answers by a function, which is called for one request at a time.
func NewFunc(say func(Request) Step) *Server { return &Server{say: say, next: map[string]int{}} }

// Serve runs a server on loopback for as long as the test.
func Serve(t testing.TB, script Script) *Server {
	s := New(script)
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	s.URL = ts.URL + "/v1"
	return s
}

// Requests returns the requests so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var v voice
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		v = chat{}
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		v = messages{}
	default:
		http.NotFound(w, r)
		return
	}
	req, err := v.readRequest(body)
	if err == nil && r.Header.Get("Content-Type") != "application/json" {
		err = fmt.Errorf("Content-Type is %q", r.Header.Get("Content-Type"))
	}
	req.Path, req.Body, req.Key = r.URL.Path, body, v.requestKey(r.Header)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	step, ok := s.takeReply(req)
	if !ok {
		writeError(w, http.StatusNotFound, "there is no model "+req.Model)
		return
	}
	if step.Status != 0 {
		if step.RetryAfter != "" {
			w.Header().Set("Retry-After", step.RetryAfter)
		}
		if step.Status >= 300 && step.Status < 400 {
			w.Header().Set("Location", "/elsewhere")
		}
		writeError(w, step.Status, strings.ReplaceAll(step.Message, "{key}", req.Key))
		return
	}
	step.Text = strings.ReplaceAll(step.Text, "{key}", req.Key)
	writeAnswer(w, r, v, req, step)
}

// takeReply notes the request and finds the step that answers it.
func (s *Server) takeReply(req Request) (Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	step := Step{}
	if s.say != nil {
		step = s.say(req)
	} else {
		steps := s.script[req.Model]
		if len(steps) == 0 {
			return Step{}, false
		}
		step = steps[min(s.next[req.Model], len(steps)-1)]
		s.next[req.Model]++
	}
	step.In = cmp.Or(step.In, 100)
	step.Out = cmp.Or(step.Out, 10)
	return step, true
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]string{"type": "scripted", "message": message}})
}

// writeAnswer writes the answer of the step, as the client wants it and as far as the fault lets it.
func writeAnswer(w http.ResponseWriter, r *http.Request, v voice, req Request, step Step) {
	if step.Fault == Garbage {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: <html>gateway</html>\n\n")
		return
	}
	if step.Whole {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(v.wholeReply(req, step))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(event string) {
		fmt.Fprint(w, event)
		w.(http.Flusher).Flush()
	}
	for _, e := range v.openingEvents(req, step) {
		send(e)
	}
	for i, piece := range splitText(step.Text) {
		if i == 1 {
			switch step.Fault {
			case Cut:
				panic(http.ErrAbortHandler)
			case Stall:
				<-r.Context().Done()
				return
			case Broken:
				send(v.errorEvent())
				return
			}
		}
		send(v.textEvent(piece))
	}
	if step.Fault == Endless {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, v.textEvent(strings.Repeat("more ", 10_000))); err != nil {
				return
			}
		}
		return
	}
	for _, e := range v.closingEvents(step) {
		send(e)
	}
}

// splitText cuts a text as models stream it, at least in two.
func splitText(text string) []string {
	half := len(text) / 2
	for half > 0 && half < len(text) && text[half]&0xC0 == 0x80 {
		half++
	}
	return []string{text[:half], text[half:]}
}

// voice is one dialect.
type voice interface {
	requestKey(http.Header) string
	readRequest(body []byte) (Request, error)
	wholeReply(Request, Step) any
	openingEvents(Request, Step) []string
	textEvent(text string) string
	errorEvent() string
	closingEvents(Step) []string
}

type object = map[string]any

// writeData is one server-sent event without a name.
func writeData(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ": " + strconv.Quote(err.Error()) + "\n\n"
	}
	return "data: " + string(text) + "\n\n"
}
