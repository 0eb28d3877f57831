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
	// maxGolden is how often one is asked for when answers are lost on the way.
	maxGolden = 3
)

// Golden is the checkpoint of a sprite with its skills in place, to go back to and to start from.
type Golden struct {
	Checkpoint sprites.Checkpoint
	Reused     bool // it was there already
}

// TakeGolden takes a sprite's checkpoint that is called comment, unless one of that name is there and sound. So it may be
// repeated, also when nobody knows what became of the last time: a checkpoint whose answer was lost is found by its name.
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
