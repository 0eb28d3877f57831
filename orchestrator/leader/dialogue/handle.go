package dialogue

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/forge/hook"
)

// Handle carries out a delivery of a code host, and returns a sentence about its outcome. An error is a reason to try again.
func (d *Dialogue) Handle(ctx context.Context, host string, e hook.Delivery) (string, error) {
	switch {
	case e.Kind == hook.Ping:
		return "the webhook works", nil
	case e.Kind == hook.Comment && e.Action == hook.Created:
		return d.handleComment(ctx, host, e)
	case e.Kind == hook.Comment && e.Action == hook.Edited:
		return d.handleTick(ctx, host, e)
	case e.Kind == hook.Review && e.Action == hook.Submitted:
		return d.handleReview(ctx, host, e)
	case e.Kind == hook.PullRequest && (e.Action == hook.Synchronized || e.Action == hook.Closed):
		return d.handlePull(ctx, host, e)
	}
	return "nothing to do", nil
}
