package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// Recovery takes runs back to a durable checkpoint after a restart of the machine or of its disk.
type Recovery struct {
	Client  *sprites.Client
	Disk    func() string // "" when unknown
	Records *history.Records
	// SettleTurn settles the reservation of a run for a call of an agent, with the usage of the call up to a turn.
	SettleTurn func(ctx context.Context, run, call string, turn protocol.AgentTurn) error
	Log        zerolog.Logger
}

// recoverRun takes a run back, unless its files are those that it left.
func (rc *Recovery) recoverRun(ctx context.Context, id string, r *driver.Runner) error {
	s := r.State()
	switch {
	case s.Recovering != nil:
		return r.Recover(ctx, nil)
	case s.Disk == "" || s.Sprite == "" || s.Status.Ended() || s.Status.Blocked():
		return nil
	}
	disk := rc.Disk()
	if disk == "" || s.Disk == disk {
		return nil
	}
	turns, err := rc.Records.KeptTurns(id)
	if err != nil {
		return err
	}
	lost, err := rc.findSoundPoint(ctx, id, s.Sprite, disk, turns)
	if err != nil || lost == nil {
		return err
	}
	cutOff := map[string]string{} // the sprites of the calls at work that get new ids
	for _, c := range s.Pending {
		if c.Call != nil && c.Call.Resume == nil {
			cutOff[r.CallID(c.ID)] = c.Sprite
		}
	}
	rc.Log.Warn().Str("run_id", id).Str("trace_id", tracecontext.TraceID(id)).Str("checkpoint", lost.Pair.CheckpointID).Int("sprites", max(1, len(lost.Sprites))).
		Msg("the machine or its disk was restarted: the run goes back to its newest durable checkpoints")
	if err := r.Recover(ctx, lost); err != nil && !errors.Is(err, engine.ErrStale) {
		return fmt.Errorf("recover run %s: %w", id, err)
	}
	for _, b := range lost.Sprites { // under its new id the call reserves its further usage
		turn := slices.IndexFunc(turns, func(t replay.Turn) bool {
			return t.Pair.Sprite == b.Pair.Sprite && t.Pair.CheckpointID == b.Pair.CheckpointID
		})
		if turn >= 0 && cutOff[turns[turn].Call] == b.Pair.Sprite {
			err = errors.Join(err, rc.SettleTurn(ctx, id, turns[turn].Call, turns[turn].Said))
		}
	}
	return err
}

// findSoundPoint returns the newest durable point of a run; nil when its sprite is gone, which later calls report.
func (rc *Recovery) findSoundPoint(ctx context.Context, id, sprite, disk string, turns []replay.Turn) (*lattice.PowerLost, error) {
	durable := map[lattice.Pair]bool{}
	var failed error
	listed := map[string]bool{}
	list := func(name string) {
		if listed[name] || failed != nil {
			return
		}
		listed[name] = true
		all, err := rc.Client.Checkpoints(ctx, name)
		if err != nil && !errors.Is(err, sprites.ErrNotFound) {
			failed = fmt.Errorf("look for durable checkpoints of sprite %s: %w", name, err)
		}
		for _, c := range all {
			durable[lattice.Pair{Sprite: name, CheckpointID: c.ID}] = c.Durable && !c.Unverified && c.Health == ""
		}
	}
	if _, err := rc.Client.Get(ctx, sprite); errors.Is(err, sprites.ErrNotFound) {
		return nil, nil
	}
	p, _, err := rc.Records.ReadHistory(id)
	if err != nil {
		return nil, err
	}
	lost, err := replay.SoundPoint(p.Parsed, id, p.Facts, disk, turns, func(pair lattice.Pair) bool {
		list(pair.Sprite)
		return durable[lattice.Pair{Sprite: pair.Sprite, CheckpointID: pair.CheckpointID}]
	})
	return &lost, errors.Join(err, failed)
}
