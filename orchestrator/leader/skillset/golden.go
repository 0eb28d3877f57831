package skillset

import (
	"context"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	// goldenTimeout bounds the taking of a golden checkpoint.
	goldenTimeout = 5 * time.Minute
	// maxGolden bounds the requests for one if replies are lost.
	maxGolden = 3
)

// Golden is a checkpoint of a sprite with its skills installed, to restore and to fork from.
type Golden struct {
	Checkpoint sprites.Checkpoint
	Reused     bool // it existed before
}

// TakeGolden takes a checkpoint of a sprite with a comment, unless a sound one with the comment exists. It may be repeated: a
// checkpoint whose reply was lost is found by its comment.
func TakeGolden(ctx context.Context, c *sprites.Client, sprite, comment string) (Golden, error) {
	ctx, cancel := context.WithTimeout(ctx, goldenTimeout)
	defer cancel()
	asked := false
	var lost error
	for range maxGolden {
		all, err := c.Checkpoints(ctx, sprite)
		if err != nil {
			return Golden{}, err
		}
		for _, p := range all {
			if p.Comment == comment && p.Health == "" && !p.IsAuto {
				return Golden{Checkpoint: p, Reused: !asked}, nil
			}
		}
		taken, err := c.Checkpoint(ctx, sprite, comment)
		if err == nil {
			return Golden{Checkpoint: taken}, nil
		}
		if !sprites.Uncertain(err) || ctx.Err() != nil {
			return Golden{}, err
		}
		asked, lost = true, err
	}
	return Golden{}, fmt.Errorf("take the golden checkpoint of sprite %s: %w", sprite, lost)
}
