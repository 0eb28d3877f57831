package api

import (
	"context"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/proposal"
)

// Proposals is the part of Service for changes of their environment that sprites propose.
type Proposals interface {
	// Proposals lists them, the newest last.
	Proposals(ctx context.Context, which ProposalList) ([]proposal.State, error)
	// Proposal returns one, by its id or a unique prefix of that.
	Proposal(ctx context.Context, id string) (proposal.State, error)
	// DecideProposal approves or rejects one. The same decision again changes nothing.
	DecideProposal(ctx context.Context, id string, d ProposalDecision) (proposal.State, error)
	// VerifyProposal starts the run, in a fresh sprite with the change applied, that shows whether it helps.
	VerifyProposal(ctx context.Context, id string, r DriveRequest) (RunView, error)
}

// ProposalList chooses proposals. The zero value chooses all.
type ProposalList struct {
	Run  string `json:"run_id,omitempty"` // those that this run made
	Open bool   `json:"open,omitempty"`   // those that are pending
}

// ProposalDecision is a person's decision about a proposal.
type ProposalDecision struct {
	Decision lattice.Decision `json:"decision"` // approve or reject
	Comments string           `json:"comments,omitempty"`
}

func proposalRoutes(s Proposals) []route.Route {
	return []route.Route{
		route.ListAll("/proposals", "List the changes of their environment that sprites proposed, the newest last.", route.After, func(v proposal.State) string { return v.ID },
			func(r *http.Request) ([]proposal.State, error) {
				return s.Proposals(r.Context(), ProposalList{Run: r.FormValue("run"), Open: exchange.IsSet(r, "open")})
			}, route.String("run", "only those that a run made"), route.Bool("open", "only those that are pending")),
		route.Get("/proposals/{id}", "Return a proposal.", func(r *http.Request) (proposal.State, error) { return s.Proposal(r.Context(), route.ID(r)) }),
		route.Post(route.Operator, "/proposals/{id}/decide", "Approve or reject a proposal.",
			func(r *http.Request, in ProposalDecision) (proposal.State, error) {
				return s.DecideProposal(r.Context(), route.ID(r), in)
			}),
		route.Post(route.Operator, "/proposals/{id}/verify", "Start the run that shows whether a proposal helps.",
			func(r *http.Request, in DriveRequest) (RunView, error) {
				return s.VerifyProposal(r.Context(), route.ID(r), in)
			}),
	}
}

// Proposals lists the changes of their environment that sprites proposed.
func (c DecisionCalls) Proposals(ctx context.Context, which ProposalList) ([]proposal.State, error) {
	return callList[proposal.State](ctx, c.connection, Root+"/proposals", queryOf("run", which.Run, "open", formatSet(which.Open)))
}

// Proposal returns one of them, by its id or a unique prefix of that.
func (c DecisionCalls) Proposal(ctx context.Context, id string) (proposal.State, error) {
	return call[proposal.State](ctx, c.connection, "GET", path("proposals", id), nil, nil)
}

// DecideProposal approves or rejects one of them.
func (c DecisionCalls) DecideProposal(ctx context.Context, id string, d ProposalDecision) (proposal.State, error) {
	return call[proposal.State](ctx, c.connection, "POST", path("proposals", id, "decide"), nil, d)
}

// VerifyProposal starts the run that shows whether one of them helps.
func (c DecisionCalls) VerifyProposal(ctx context.Context, id string, r DriveRequest) (RunView, error) {
	return call[RunView](ctx, c.connection, "POST", path("proposals", id, "verify"), nil, r)
}
