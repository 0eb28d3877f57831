// Package agenttest is a model server for tests: real agents run against it on loopback, and it answers from a script.
// Start with Serve. It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, each as the
// stream of server-sent events that the vendors' own programs expect.
//
//	agent ──POST, whole conversation──► server: how many answers does it hold? ──► that step of the script
//
// The server keeps no conversation. Which step comes next is read from the request, so that retries, resumed sessions
// and requests on the side cannot put it out of step. A request that offers no tools is one on the side (agents name
// their sessions that way) and gets Script.Side. Every request is kept, so that tests can assert the texts that the agent sent.
package agenttest

import (
	"bytes"
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
	"time"
)

// Script lists the answers of the model, turn by turn. The last step is repeated.
type Script struct {
	Steps []Step `json:"steps"`
	Side  string `json:"side,omitempty"` // the answer to requests without tools; default "ok"
	// Since is something that the user says: steps count from there, not from the beginning of the conversation.
	Since string `json:"since,omitempty"`
	// Key is the API key that requests must have; "" for none. Others are refused (401) and not kept.
	Key string `json:"key,omitempty"`
}

// Request is a request of an agent.
type Request struct {
	Path    string
	Header  http.Header
	Body    json.RawMessage
	Step    int      // of the script; -1 on the side
	Tools   []string // offered; of a namespace as NAMESPACE/NAME
	Results []string // of the tools used so far, as text
	Prompt  string   // all that the user's side said as text, joined by newlines
}

// Server answers from a script. URL has no path: each vendor appends its own.
type Server struct {
	URL string

	http   *httptest.Server
	mu     sync.Mutex // guards the fields below
	script Script
	asked  []Request
	failed map[int]int
}

// Serve starts a server that ends with the test.
func Serve(t testing.TB, script Script) *Server {
	t.Helper()
	s := New(script)
	t.Cleanup(s.Close)
	return s
}

// New starts a server outside of a test. The caller closes it.
func New(script Script) *Server {
	s := &Server{}
	s.Play(script)
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// Play changes the script. Earlier requests are kept.
func (s *Server) Play(script Script) {
	script.Side = cmp.Or(script.Side, "ok")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.failed = script, map[int]int{}
}

// Close ends the server and all connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns all requests so far, in order, including those on the side.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// Last returns the newest request that was not one on the side, and false when there was none.
func (s *Server) Last() (Request, bool) {
	asked := s.Requests()
	for i := len(asked) - 1; i >= 0; i-- {
		if asked[i].Step >= 0 {
			return asked[i], true
		}
	}
	return Request{}, false
}

// dialect is one vendor's form of requests and answers.
type dialect struct {
	read  func(body []byte) (conversation, error)
	write func(w io.Writer, step Step, id string)
	fault func(step Step) any
}

func dialectOf(path string) (dialect, bool) {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return dialect{readMessages, writeMessages, messagesFault}, true
	case strings.HasSuffix(path, "/responses"):
		return dialect{readResponses, writeResponses, openaiFault}, true
	case strings.HasSuffix(path, "/chat/completions"):
		return dialect{readChat, writeChat, openaiFault}, true
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		return dialect{readGemini, writeGemini, geminiFault}, true
	}
	return dialect{}, false
}

// ServeHTTP answers a request for a model; any other is answered with an empty object, as agents ask for this and that
// before they begin.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent was stopped
	}
	d, ok := dialectOf(r.URL.Path)
	if !ok || r.Method != http.MethodPost {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
		return
	}
	s.mu.Lock()
	key := s.script.Key
	s.mu.Unlock()
	if bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); key != "" && r.Header.Get("X-Api-Key") != key && r.Header.Get("X-Goog-Api-Key") != key && bearer != key {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(d.fault(Step{Status: http.StatusUnauthorized})) // an agent that went away misses nothing
		return
	}
	talk, err := d.read(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	step, fails, number := s.nextStep(talk, Request{Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	if !waitOrGone(r, time.Duration(step.DelayMS)*time.Millisecond) {
		return
	}
	if step.Await != nil {
		step.Await()
	}
	if fails && step.Status != 0 {
		if step.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(step.RetryAfter))
		}
		if step.Resets > 0 { // Anthropic's form; the others are in the body
			w.Header().Set("Anthropic-Ratelimit-Unified-Status", "rejected")
			w.Header().Set("Anthropic-Ratelimit-Unified-Representative-Claim", "five_hour")
			w.Header().Set("Anthropic-Ratelimit-Unified-Reset", strconv.FormatInt(step.resetsAt(), 10))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(step.Status)
		_ = json.NewEncoder(w).Encode(d.fault(step)) // an agent that went away misses nothing
		return
	}
	step.In = cmp.Or(step.In, 1000)
	step.Out = cmp.Or(step.Out, 50)
	var answer bytes.Buffer
	d.write(&answer, step, strconv.Itoa(number))
	w.Header().Set("Content-Type", "text/event-stream")
	if fails && step.Truncate {
		_, _ = w.Write(answer.Bytes()[:answer.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(answer.Bytes())
}

// nextStep keeps the request, and finds its step, whether that step's fault is due, and how many requests there were.
func (s *Server) nextStep(talk conversation, r Request) (step Step, fails bool, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step = Step{Text: s.script.Side}
	if r.Step = min(talk.countSince(s.script.Since), len(s.script.Steps)-1); len(talk.tools) == 0 {
		r.Step = -1
	} else if r.Step >= 0 {
		step = s.script.Steps[r.Step]
	}
	r.Tools, r.Results, r.Prompt = talk.tools, talk.results, strings.Join(talk.prompt, "\n")
	s.asked = append(s.asked, r)
	if step.Status == 0 && !step.Truncate {
		return step, false, len(s.asked)
	}
	s.failed[r.Step]++
	return step, step.Fails == 0 || s.failed[r.Step] <= step.Fails, len(s.asked)
}

// waitOrGone reports false when the agent went away.
func waitOrGone(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
