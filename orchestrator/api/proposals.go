package api

import (
	"context"
	"net/http"
	"net/url"

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

func routeProposals(mux *http.ServeMux, s Proposals) {
	mux.HandleFunc("GET /v1/proposals", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Proposals(r.Context(), ProposalList{Run: r.FormValue("run"), Open: r.FormValue("open") != ""})
		reply(w, out, err)
	})
	mux.HandleFunc("GET /v1/proposal", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Proposal(r.Context(), r.FormValue("id"))
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/proposals/decide", func(w http.ResponseWriter, r *http.Request) {
		var in ProposalDecision
		if read(w, r, &in) {
			out, err := s.DecideProposal(r.Context(), r.FormValue("id"), in)
			reply(w, out, err)
		}
	})
	mux.HandleFunc("POST /v1/proposals/verify", func(w http.ResponseWriter, r *http.Request) {
		var in DriveRequest
		if read(w, r, &in) {
			out, err := s.VerifyProposal(r.Context(), r.FormValue("id"), in)
			reply(w, out, err)
		}
	})
}

// Proposals lists the changes of their environment that sprites proposed.
func (c *Client) Proposals(ctx context.Context, which ProposalList) ([]proposal.State, error) {
	query := url.Values{"run": {which.Run}}
	if which.Open {
		query.Set("open", "1")
	}
	return call[[]proposal.State](ctx, c, "GET", "/v1/proposals", query, nil)
}

// Proposal returns one of them, by its id or a unique prefix of that.
func (c *Client) Proposal(ctx context.Context, id string) (proposal.State, error) {
	return call[proposal.State](ctx, c, "GET", "/v1/proposal", url.Values{"id": {id}}, nil)
}

// DecideProposal approves or rejects one of them.
func (c *Client) DecideProposal(ctx context.Context, id string, d ProposalDecision) (proposal.State, error) {
	return call[proposal.State](ctx, c, "POST", "/v1/proposals/decide", url.Values{"id": {id}}, d)
}

// VerifyProposal starts the run that shows whether one of them helps.
func (c *Client) VerifyProposal(ctx context.Context, id string, r DriveRequest) (RunView, error) {
	return call[RunView](ctx, c, "POST", "/v1/proposals/verify", url.Values{"id": {id}}, r)
}
