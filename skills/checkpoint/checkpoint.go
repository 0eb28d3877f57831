// Package checkpoint holds checkpoint.create: a checkpoint of this sprite, taken through its own api socket (DESIGN 22).
// Skills is the list, create the work; package spritekit/checkpoint speaks to the socket. It never restores one: that is
// the orchestrator's to decide.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const maxComment = 200

// Skills lists the family.
func Skills() []skill.Skill {
	return []skill.Skill{{Name: "checkpoint.create", Run: skill.Typed(create)}}
}

type input struct {
	Comment string `json:"comment"`
}

type data struct {
	CheckpointID string `json:"checkpoint_id"`
}

func create(ctx context.Context, c *skill.Call, in input) (*data, error) {
	if in.Comment != "" {
		if err := propose.Line("/comment", in.Comment, maxComment); err != nil {
			return nil, err
		}
	}
	id, err := checkpoint.Client{Socket: c.Socket}.Create(ctx, in.Comment)
	switch {
	case errors.Is(err, checkpoint.ErrUnavailable):
		return nil, fault.Unsupported("no_socket", "%v", err).
			WithHint("only a sprite with an api socket can checkpoint itself; elsewhere the orchestrator takes checkpoints")
	case err != nil && ctx.Err() == nil:
		e := fault.Failed("checkpoint_failed", "%v", err)
		e.Retryable = true
		return nil, e.WithHint("look at the sprite's host, then try again")
	case err != nil:
		return nil, err
	}
	metadata, err := json.Marshal(data{id})
	if err != nil {
		return nil, fmt.Errorf("describe the checkpoint: %w", err)
	}
	return &data{id}, c.Emit(protocol.Info{Message: "checkpoint " + id, Kind: "checkpoint", Metadata: metadata})
}
