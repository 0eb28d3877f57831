package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/intent"
)

// Intents creates intents, lists them and decides about them.
type Intents interface {
	// CreateIntent creates an intent, or returns the one that the key created before.
	CreateIntent(ctx context.Context, r IntentRequest) (intent.State, error)
	// Intents lists up to limit intents that are older than the intent before, the newest first. "" begins with the newest, 0 are all.
	Intents(ctx context.Context, before string, limit int) ([]intent.State, error)
	Intent(ctx context.Context, id string) (intent.State, error)
	// DecideIntent approves, rejects or cancels an intent. The same decision again changes nothing.
	DecideIntent(ctx context.Context, id string, d IntentDecision) (intent.State, error)
}

// IntentRequest is POST /api/v1/intents.
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
	// Urgent lets the intent start where only the default table would ask a person. Schedules set it, requests cannot.
	Urgent bool `json:"-"`
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

func intentRoutes(s Intents) []route.Route {
	return []route.Route{
		route.List("/intents", "List intents, the newest first.", route.Before, func(v intent.State) string { return v.ID }, func(r *http.Request, p exchange.Page) ([]intent.State, error) {
			return s.Intents(r.Context(), p.Last, p.Limit)
		}),
		route.AcceptKey(route.Post(route.Operator, "/intents", "Create an intent, or return the one that the key created before.",
			func(r *http.Request, in IntentRequest) (intent.State, error) {
				in.Key = route.Key(r, in.Key)
				return s.CreateIntent(r.Context(), in)
			})),
		route.Get("/intents/{id}", "Return an intent.", func(r *http.Request) (intent.State, error) { return s.Intent(r.Context(), route.ID(r)) }),
		route.Post(route.Operator, "/intents/{id}/decide", "Approve, reject or cancel an intent.",
			func(r *http.Request, in IntentDecision) (intent.State, error) {
				return s.DecideIntent(r.Context(), route.ID(r), in)
			}),
	}
}

// CreateIntent creates an intent.
func (c DecisionCalls) CreateIntent(ctx context.Context, r IntentRequest) (intent.State, error) {
	if r.Key == "" {
		r.Key = newKey()
	}
	return call[intent.State](ctx, c.connection, "POST", Root+"/intents", nil, r)
}

// Intents lists up to limit intents that are older than another one, the newest first; 0 are all.
func (c DecisionCalls) Intents(ctx context.Context, older string, limit int) ([]intent.State, error) {
	return callList[intent.State](ctx, c.connection, Root+"/intents", queryOf("limit", strconv.Itoa(limit), route.Before, older))
}

// Intent returns the intent whose id is id or begins with it; "" is the newest.
func (c DecisionCalls) Intent(ctx context.Context, id string) (intent.State, error) {
	return call[intent.State](ctx, c.connection, "GET", path("intents", id), nil, nil)
}

// DecideIntent decides about an intent.
func (c DecisionCalls) DecideIntent(ctx context.Context, id string, d IntentDecision) (intent.State, error) {
	return call[intent.State](ctx, c.connection, "POST", path("intents", id, "decide"), nil, d)
}
