package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// keepTurns is how many checkpoints of turns a sprite keeps by default.
const keepTurns = 64

// Turns is a driver.Caller. While an agent works, it removes the oldest checkpoints of turns from the sprite.
type Turns struct {
	driver.Caller
	Boundaries *Boundaries
	Keep       int // how many stay; 0 for the default
}

// Call calls a skill. At its end no more checkpoints of turns are left than may stay. A removal that fails is logged.
func (t Turns) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	var taken, busy atomic.Bool
	var removals sync.WaitGroup
	out, err := t.Caller.Call(ctx, c, func(e lattice.Event) {
		event(e)
		if !isTurn(e.Event) {
			return
		}
		if taken.Store(true); busy.CompareAndSwap(false, true) {
			removals.Go(func() {
				defer busy.Store(false)
				t.thin(ctx, c.Sprite)
			})
		}
	})
	removals.Wait()
	if taken.Load() {
		t.thin(ctx, c.Sprite)
	}
	return out, err
}

func (t Turns) thin(ctx context.Context, sprite string) {
	b := t.Boundaries
	if err := b.removeSpare(ctx, sprite, protocol.TurnComment, cmp.Or(t.Keep, keepTurns), ""); err != nil && ctx.Err() == nil {
		b.Log.Warn().Str("sprite", sprite).Err(err).Msg("remove old turns")
	}
}

// isTurn reports whether an event tells that a turn of an agent was kept.
func isTurn(e protocol.Event) bool {
	var info struct {
		Kind string `json:"kind"`
	}
	return e.Type == protocol.TypeInfo && json.Unmarshal(e.Payload, &info) == nil && info.Kind == protocol.KindAgentTurn
}
