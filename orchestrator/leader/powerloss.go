package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// disk names what the sprites are on; "" where nothing is known of it, as of a remote host.
func (l *Leader) disk() string {
	if l.host == nil {
		return ""
	}
	return l.host.Disk()
}

// ready is begun, for a run whose files are needed: after a restart of the machine or of the disk they are first put back
// to what was durable.
func (l *Leader) ready(ctx context.Context, id string) (*run, error) {
	r, err := l.begun(ctx, id)
	if err != nil {
		return nil, err
	}
	s, disk := r.runner.State(), l.disk()
	switch {
	case s.Recovering != nil:
		return r, r.runner.Recover(ctx, nil)
	case disk == "" || s.Disk == "" || s.Disk == disk || s.Sprite == "" || s.Status.Ended() || s.Status.Blocked():
		return r, nil
	}
	lost, err := l.soundPoint(ctx, id, s.Sprite, disk)
	if err != nil || lost == nil {
		return r, err
	}
	l.cfg.Log.Warn().Str("run", id).Str("checkpoint", lost.Pair.CheckpointID).Msg("the machine or its disk was restarted: the run goes back to its newest durable checkpoint")
	if err := r.runner.Recover(ctx, lost); err != nil && !errors.Is(err, engine.ErrStale) {
		return nil, fmt.Errorf("recover run %s: %w", id, err)
	}
	return r, nil
}

// soundPoint finds out how far a run goes back; nil when its sprite is gone, which is for others to tell.
func (l *Leader) soundPoint(ctx context.Context, id, sprite, disk string) (*lattice.PowerLost, error) {
	all, err := l.client.Checkpoints(ctx, sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		if _, err = l.client.Get(ctx, sprite); errors.Is(err, sprites.ErrNotFound) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for durable checkpoints of sprite %s: %w", sprite, err)
	}
	durable := map[string]bool{}
	for _, c := range all {
		durable[c.ID] = c.Durable && !c.Unverified && c.Health == ""
	}
	p, err := l.journaled(id)
	if err != nil {
		return nil, err
	}
	lost, err := engine.SoundPoint(p.program, id, p.facts, disk, func(pair lattice.Pair) bool { return durable[pair.CheckpointID] })
	return &lost, err
}

// loseTorn marks moments whose files would be those in the sprite, if the machine or the disk was restarted since.
func (l *Leader) loseTorn(p past) error {
	at, begun, err := l.standing(p.ID)
	if err != nil || !begun {
		return err
	}
	s := at.State
	if disk := l.disk(); s.Disk == "" || disk == "" || s.Disk == disk || len(p.facts) == 0 {
		return nil
	}
	for i, pt := range p.points {
		if pt.Files == engine.FilesUnchanged {
			p.points[i].Files = engine.FilesLost
			p.points[i].Lost = "the machine or its disk was restarted since, and the files may be torn"
		}
	}
	return nil
}

// Restore puts a sprite back to a checkpoint. One that has none to go back to is removed, so that it is made again; one that
// is not the run's own is left for a person to look at.
func (b boundaries) Restore(ctx context.Context, sprite string, to lattice.Pair) error {
	if to.CheckpointID != "" {
		return b.Session.Restore(ctx, sprite, to)
	}
	b.Forget(ctx, sprite)
	s, err := b.l.client.Get(ctx, sprite)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for sprite %s: %w", sprite, err)
	}
	if !slices.ContainsFunc(s.Labels, func(label string) bool { return strings.HasPrefix(label, OwnerLabel) }) {
		return engine.Torn(sprite)
	}
	if err := b.l.client.Delete(ctx, sprite); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		return fmt.Errorf("remove sprite %s, whose files may be torn: %w", sprite, err)
	}
	return nil
}
