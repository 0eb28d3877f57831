package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Boundaries are checkpoints that a run takes for itself, to go back to; a long one takes many. The newest of a sprite are
// kept, those that a run still goes by (an open wait, a call that is under way, a copy that is to be made), and whatever a
// person took (DESIGN 23).
const (
	keepBoundaries = 16
	sparePeriod    = 8 // boundaries between two looks at what is to spare
)

// boundaries is the engine.Boundary: the session's, and what keeps its checkpoints from piling up.
type boundaries struct {
	*session.Session
	l *Leader
}

// Checkpoint takes a boundary, and from time to time removes those that are to spare. That a removal fails is no reason
// to fail a run.
func (b boundaries) Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error) {
	pair, err := b.Session.Checkpoint(ctx, sprite)
	if err == nil && b.l.due(sprite) {
		if err := b.l.spare(ctx, sprite, pair.CheckpointID); err != nil && ctx.Err() == nil {
			b.l.cfg.Log.Warn().Str("sprite", sprite).Err(err).Msg("remove old boundaries")
		}
	}
	return pair, err
}

// due counts the boundaries of a sprite.
func (l *Leader) due(sprite string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boundaries[sprite]++
	return l.boundaries[sprite]%sparePeriod == 0
}

func (l *Leader) spare(ctx context.Context, sprite, newest string) error {
	all, err := l.client.Checkpoints(ctx, sprite) // newest first
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	own := slices.DeleteFunc(all, func(c sprites.Checkpoint) bool { return !strings.HasPrefix(c.Comment, session.BoundaryComment) })
	if len(own) <= keepBoundaries {
		return nil
	}
	states, err := l.states()
	if err != nil {
		return fmt.Errorf("read what runs go by: %w", err)
	}
	for _, c := range own[keepBoundaries:] {
		named := fmt.Appendf(nil, `"checkpoint_id":%q`, c.ID)
		if c.ID == newest || slices.ContainsFunc(states, func(s json.RawMessage) bool { return bytes.Contains(s, named) }) {
			continue
		}
		if gone := l.client.DeleteCheckpoint(ctx, sprite, c.ID); gone != nil && !errors.Is(gone, sprites.ErrNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// states are the states of all runs that have begun, as JSON.
func (l *Leader) states() ([]json.RawMessage, error) {
	snapshots, err := l.store.States()
	if err != nil {
		return nil, err
	}
	states := make([]json.RawMessage, 0, len(snapshots))
	for _, s := range snapshots {
		behind, err := l.store.FactBehind(s.Run, s.Seq)
		if err == nil && behind {
			s.Body, err = l.stateText(s.Run)
		}
		if err != nil {
			return nil, err
		}
		states = append(states, s.Body)
	}
	return states, nil
}
