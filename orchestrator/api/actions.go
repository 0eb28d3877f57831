package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Actions is the part of Service for actions that skills request without waiting for them.
type Actions interface {
	// Actions lists the actions of a run, in order, or with "*" the open actions of all runs.
	Actions(ctx context.Context, id string) ([]NotedAction, error)
	// DecideAction records a person's decision on an open action. An approved push is performed; for any other action an
	// approval says that the person did it. The same decision again changes nothing.
	DecideAction(ctx context.Context, id string, d ActionDecision) (NotedAction, error)
}

// The states of a NotedAction.
const (
	ActionOpen      = "open"      // a person may do it, or have it done
	ActionApproved  = "approved"  // a person approved it, or lattice began it, and its outcome is not known: approving it again does it
	ActionFulfilled = "done"      // by lattice, or by hand
	ActionRejected  = "rejected"  // by a person
	ActionForbidden = "forbidden" // by the policy, or it cannot be done; Detail says why
)

// NotedAction is an action that a skill requested without waiting for it.
type NotedAction struct {
	RunID      string          `json:"run_id"`
	Key        string          `json:"key"`
	Action     string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`
	Binding    json.RawMessage `json:"binding,omitempty"` // of a push, or warnings
	Status     string          `json:"status"`
	ByHand     bool            `json:"by_hand,omitempty"` // lattice cannot perform it: a person does, and approves to record that
	Detail     string          `json:"detail,omitempty"`
	Sprite     string          `json:"sprite,omitempty"`
	At         time.Time       `json:"at"` // when it was requested
	// Of a decision: who, when and why.
	By        string     `json:"by,omitempty"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`
	Comments  string     `json:"comments,omitempty"`
}

// ActionDecision is the body of a decision about an action. Key may be a unique prefix.
type ActionDecision struct {
	Key      string           `json:"key"`
	Decision lattice.Decision `json:"decision"`
	Comments string           `json:"comments,omitempty"`
	By       string           `json:"by"`
}

func actionName(v NotedAction) string { return v.RunID + "/" + v.Key }

func actionRoutes(s Actions) []route.Route {
	return []route.Route{
		route.ListAll("/actions", "List the open actions of all runs.", route.After, actionName, func(r *http.Request) ([]NotedAction, error) { return s.Actions(r.Context(), allRuns) }),
		route.ListAll("/runs/{id}/actions", "List the actions that skills of a run requested without waiting for them.", route.After, actionName,
			func(r *http.Request) ([]NotedAction, error) { return s.Actions(r.Context(), route.ID(r)) }),
		route.Post(route.Operator, "/runs/{id}/actions", "Decide about an open action; an approved push is performed.",
			func(r *http.Request, in ActionDecision) (NotedAction, error) {
				in.By = route.Requester(r.Context(), in.By)
				return s.DecideAction(r.Context(), route.ID(r), in)
			}),
	}
}

// allRuns stands for all runs in a request for actions.
const allRuns = "*"

// Actions lists the actions that skills of a run asked for without waiting.
func (c DecisionCalls) Actions(ctx context.Context, id string) ([]NotedAction, error) {
	path := runPath(id, "actions")
	if id == allRuns {
		path = Root + "/actions"
	}
	return callList[NotedAction](ctx, c.connection, path, nil)
}

// DecideAction decides about one of them.
func (c DecisionCalls) DecideAction(ctx context.Context, id string, d ActionDecision) (NotedAction, error) {
	return call[NotedAction](ctx, c.connection, "POST", runPath(id, "actions"), nil, d)
}
