package retention

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A run takes boundary checkpoints for itself, to go back to; a long one takes many. Kept are the newest of a sprite, those
// that a run still needs (for an open wait, a call in progress, a copy to be made), and all that a person took (DESIGN 23).
// Turns does the same with checkpoints of the turns of agents.
const (
	keepBoundaries = 16
	sparePeriod    = 8 // boundaries between two removals of spare ones
)

// Boundaries is the driver.Boundary: that of the session, which also removes spare checkpoints.
type Boundaries struct {
	*session.Session
	Client *sprites.Client
	States *history.States
	Log    zerolog.Logger

	mu     sync.Mutex
	counts map[string]int // guarded by mu: boundaries that this process took, by sprite
}

// Checkpoint takes a boundary, and from time to time removes spare ones. A removal that fails is logged and does not fail the
// run.
func (b *Boundaries) Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error) {
	pair, err := b.Session.Checkpoint(ctx, sprite)
	if err == nil && b.isDue(sprite) {
		if err := b.removeSpare(ctx, sprite, session.BoundaryComment, keepBoundaries, pair.CheckpointID); err != nil && ctx.Err() == nil {
			b.Log.Warn().Str("sprite", sprite).Err(err).Msg("remove old boundaries")
		}
	}
	return pair, err
}

// isDue counts a boundary of a sprite, and reports whether spare ones are to be removed now.
func (b *Boundaries) isDue(sprite string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts == nil {
		b.counts = map[string]int{}
	}
	b.counts[sprite]++
	return b.counts[sprite]%sparePeriod == 0
}

// DropCount drops the count of a sprite that was removed.
func (b *Boundaries) DropCount(sprite string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.counts, sprite)
}

// removeSpare removes the checkpoints of a sprite whose comment begins so, except the newest ones, which are keep, and those that
// a run needs.
func (b *Boundaries) removeSpare(ctx context.Context, sprite, comment string, keep int, newest string) error {
	all, err := b.Client.Checkpoints(ctx, sprite) // newest first
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	own := slices.DeleteFunc(all, func(c sprites.Checkpoint) bool { return !strings.HasPrefix(c.Comment, comment) })
	if len(own) <= keep {
		return nil
	}
	states, err := b.States.EncodeUsers(sprite)
	if err != nil {
		return fmt.Errorf("read which checkpoints runs need: %w", err)
	}
	for _, c := range own[keep:] {
		named := fmt.Appendf(nil, `"checkpoint_id":%q`, c.ID)
		if c.ID == newest || slices.ContainsFunc(states, func(s json.RawMessage) bool { return bytes.Contains(s, named) }) {
			continue
		}
		if gone := b.Client.DeleteCheckpoint(ctx, sprite, c.ID); gone != nil && !errors.Is(gone, sprites.ErrNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Restore restores a sprite to a checkpoint. Without a checkpoint it removes the sprite, so that it is made again, or fails if
// the sprite is not the run's own.
func (b *Boundaries) Restore(ctx context.Context, sprite string, to lattice.Pair) error {
	if to.CheckpointID != "" {
		return b.Session.Restore(ctx, sprite, to)
	}
	b.Forget(ctx, sprite)
	s, err := b.Client.Get(ctx, sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for sprite %s: %w", sprite, err)
	}
	users, err := b.States.Store.OfSprite(sprite) // a run may have been started in a fork that another one left
	if err != nil {
		return fmt.Errorf("look for runs in sprite %s: %w", sprite, err)
	}
	own := func(label string) bool {
		return strings.HasPrefix(label, history.OwnerLabel) || len(users) == 0 && strings.HasPrefix(label, copyLabel)
	}
	if !slices.ContainsFunc(s.Labels, own) {
		return driver.Torn(sprite)
	}
	if err := b.Client.Delete(ctx, sprite); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		return fmt.Errorf("remove sprite %s, whose files may be torn: %w", sprite, err)
	}
	return nil
}
