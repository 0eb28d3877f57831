// Package credential holds credential.fetch: it asks the orchestrator for a credential and waits. The answer is the
// reference of a lease and never the secret itself, which would stay in the result, the outbox and the journal.
package credential

import (
	"context"
	"encoding/json"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxPurpose = 500
	maxScope   = 200
	maxTTL     = 24 * 3600 // seconds
)

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{{Name: "credential.fetch", Run: skill.Typed(fetchCredential)}}
}

type data struct {
	Name      string `json:"name"`
	Lease     string `json:"lease"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Variable  string `json:"variable,omitempty"`
}

func fetchCredential(ctx context.Context, c *skill.Call, p protocol.FetchCredential) (*data, error) {
	if err := validateInput(p); err != nil {
		return nil, err
	}
	if c.Resume == nil {
		return nil, propose.Ask(ctx, c, protocol.ActionFetchCredential, p)
	}
	a, err := propose.Answered(c, protocol.ActionFetchCredential)
	if err != nil {
		return nil, err
	}
	var lease struct {
		Lease     string `json:"lease"`
		ExpiresAt string `json:"expires_at"`
		Variable  string `json:"variable"`
	}
	if len(a.Result) > 0 && json.Unmarshal(a.Result, &lease) != nil || propose.Name("/result/lease", lease.Lease) != nil {
		return nil, fault.Failed("no_lease", "the request for %s was granted, but no lease came with the answer", p.Name).
			WithHint("the orchestrator answers with result.lease; a person's plain approval hands out nothing")
	}
	return &data{Name: p.Name, Lease: lease.Lease, ExpiresAt: lease.ExpiresAt, Variable: lease.Variable}, nil
}

func validateInput(p protocol.FetchCredential) error {
	if err := propose.Name("/name", p.Name); err != nil {
		return err
	}
	if err := propose.Text("/purpose", p.Purpose, maxPurpose); err != nil {
		return err
	}
	if err := propose.Optional("/scope", p.Scope, maxScope); err != nil {
		return err
	}
	if p.TTLS < 0 || p.TTLS > maxTTL {
		return skill.BadInput("/ttl_s", "is not between 0 and %d seconds", maxTTL)
	}
	return nil
}
