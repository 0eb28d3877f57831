// Package env holds env.propose: it proposes a change of the sprite's environment for later runs. A proposal is fire and
// forget: a sprite changes nothing of that kind itself, and never hears what became of it.
package env

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxHint     = 4 << 10
	maxDetails  = 16 << 10
	maxEvidence = 50
	maxText     = 1 << 10
)

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{{Name: "env.propose", Run: skill.Typed(proposeChange)}}
}

type data struct {
	Proposed    bool   `json:"proposed"`
	Fingerprint string `json:"fingerprint"`
}

func proposeChange(_ context.Context, c *skill.Call, payload json.RawMessage) (*data, error) {
	// The protocol's own reader judges the parts, so that no proposal leaves which the orchestrator would refuse.
	opened, err := protocol.Event{Type: protocol.TypeEnvironmentProposal, Payload: payload}.Open()
	if err != nil {
		_, problems, _ := strings.Cut(strings.ReplaceAll(err.Error(), "/payload", ""), ": ")
		return nil, skill.BadInput("", "%s", problems)
	}
	p := opened.(protocol.EnvironmentProposal)
	if err := check(p); err != nil {
		return nil, err
	}
	return &data{true, p.Fingerprint()}, c.Emit(p)
}

// check bounds a proposal: it is for a person to read, and describes one adjustment.
func check(p protocol.EnvironmentProposal) error {
	if err := propose.Line("/observed_failure/phase", p.ObservedFailure.Phase, maxText); err != nil {
		return err
	}
	if err := propose.Optional("/observed_failure/stderr_hint", p.ObservedFailure.StderrHint, maxHint); err != nil {
		return err
	}
	if len(p.SuggestedAdjustment.Details) > maxDetails {
		return skill.BadInput("/suggested_adjustment/details", "has %d bytes, at most %d are allowed", len(p.SuggestedAdjustment.Details), maxDetails)
	}
	if len(p.Evidence) > maxEvidence {
		return skill.BadInput("/evidence", "has %d entries, at most %d are allowed", len(p.Evidence), maxEvidence)
	}
	for _, e := range p.Evidence {
		if err := propose.Text("/evidence", e, maxText); err != nil {
			return err
		}
	}
	return nil
}
