package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Intents is what a leader does about intents.
type Intents interface {
	// CreateIntent creates an intent, or returns the one that the key created before.
	CreateIntent(ctx context.Context, r IntentRequest) (intent.State, error)
	// Intents lists up to limit intents, the newest first; 0 are all.
	Intents(ctx context.Context, limit int) ([]intent.State, error)
	Intent(ctx context.Context, id string) (intent.State, error)
	// DecideIntent approves, rejects or cancels an intent. The same decision again changes nothing.
	DecideIntent(ctx context.Context, id string, d IntentDecision) (intent.State, error)
}

// IntentRequest is POST /v1/intents.
type IntentRequest struct {
	Kind string `json:"kind"`
	// Key makes creating twice the same as creating once.
	Key     string          `json:"key"`
	Subject string          `json:"subject,omitempty"`
	Signal  string          `json:"signal,omitempty"`
	Repo    string          `json:"repo,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	// AgentEnv and Routes are as in Options; the plan holds them.
	AgentEnv []string `json:"agent_env,omitempty"`
	Routes   []string `json:"routes,omitempty"`
	// The values of AgentEnv are for the run that this request starts.
	Values
}

// IntentDecision is the body of a decision about an intent: approve, reject or cancel.
type IntentDecision struct {
	Decision string `json:"decision"`
	// Plan is the digest of the plan that is approved, or the beginning of it; "" is the present one.
	Plan   string `json:"plan_sha256,omitempty"`
	Reason string `json:"reason,omitempty"`
	// The values of the plan's variables are for the run that an approval starts.
	Values
}

func routeIntents(mux *http.ServeMux, s Intents) {
	mux.HandleFunc("GET /v1/intents", func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(cmp.Or(r.FormValue("limit"), "0"))
		if err != nil || limit < 0 {
			fail(w, fault.BadInput("bad_request", "limit is not a number"))
			return
		}
		out, err := s.Intents(r.Context(), limit)
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/intents", func(w http.ResponseWriter, r *http.Request) {
		var in IntentRequest
		if read(w, r, &in) {
			out, err := s.CreateIntent(r.Context(), in)
			reply(w, out, err)
		}
	})
	mux.HandleFunc("GET /v1/intent", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Intent(r.Context(), r.FormValue("id"))
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/intent", func(w http.ResponseWriter, r *http.Request) {
		var in IntentDecision
		if read(w, r, &in) {
			out, err := s.DecideIntent(r.Context(), r.FormValue("id"), in)
			reply(w, out, err)
		}
	})
}

// CreateIntent creates an intent.
func (c *Client) CreateIntent(ctx context.Context, r IntentRequest) (intent.State, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[intent.State](ctx, c, "POST", "/v1/intents", nil, r)
}

// Intents lists up to limit intents, the newest first; 0 are all.
func (c *Client) Intents(ctx context.Context, limit int) ([]intent.State, error) {
	return call[[]intent.State](ctx, c, "GET", "/v1/intents", url.Values{"limit": {strconv.Itoa(limit)}}, nil)
}

// Intent returns the intent whose id is id or begins with it; "" is the newest.
func (c *Client) Intent(ctx context.Context, id string) (intent.State, error) {
	return call[intent.State](ctx, c, "GET", "/v1/intent", url.Values{"id": {id}}, nil)
}

// DecideIntent decides about an intent.
func (c *Client) DecideIntent(ctx context.Context, id string, d IntentDecision) (intent.State, error) {
	return call[intent.State](ctx, c, "POST", "/v1/intent", url.Values{"id": {id}}, d)
}
