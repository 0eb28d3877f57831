package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/route"
)

// Candidate is one of several attempts at the same work, side by side: an item of a MAP with a copy of the sprite.
type Candidate struct {
	Try     int    `json:"try"`
	State   string `json:"state"`             // running, waiting, done, failed or "given up"
	Node    string `json:"node,omitempty"`    // where it stands
	Message string `json:"message,omitempty"` // the last one of its node
	// Sprite has its files, and URL opens its services; both are "" if the copy has been removed.
	Sprite string `json:"sprite,omitempty"`
	URL    string `json:"url,omitempty"`
	// Tests are the last ones that it ran.
	Tests *CandidateTests `json:"tests,omitempty"`
	// CostUSD and Tokens are those of its agents.
	CostUSD float64 `json:"cost_usd,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	Patch   string  `json:"patch,omitempty"` // its change
}

// CandidateTests are the tests of a candidate.
type CandidateTests struct {
	Status string `json:"status"`
	Total  int    `json:"total"`
	Failed int    `json:"failed"`
}

func candidateRoutes(s Review) []route.Route {
	return []route.Route{
		route.ListAll("/runs/{id}/candidates", "List the attempts that a run makes side by side, each in a copy of the sprite.", route.After, func(v Candidate) string { return strconv.Itoa(v.Try) },
			func(r *http.Request) ([]Candidate, error) { return s.Candidates(r.Context(), route.ID(r)) }),
	}
}

// Candidates lists the attempts that a run makes side by side.
func (c RunCalls) Candidates(ctx context.Context, id string) ([]Candidate, error) {
	return callList[Candidate](ctx, c.connection, runPath(id, "candidates"), nil)
}
