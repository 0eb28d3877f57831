package engine

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Log is the run's log. Append is atomic and durable: when it returns nil, all entries are on disk. It fails with
// ErrConflict when after is not the run's last sequence number, so that two drivers can never both win.
type Log interface {
	Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error)
}

// Caller runs one attempt at a skill and reports each event before it returns. It does not retry. An error means
// "could not find out" and leaves the command pending; a lost stream is Outcome Lost.
type Caller interface {
	Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error)
}

// Boundary takes and restores checkpoints of a sprite. Both are safe to repeat.
type Boundary interface {
	Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error)
	Restore(ctx context.Context, sprite string, to lattice.Pair) error
}

// Preparer makes the main sprite of a run ready: created, /skills there, repository bundle and task.json written. It is
// idempotent. What it returns is merged into $ctx. A *lattice.Refusal is final, any other error is "could not find out".
type Preparer interface {
	Prepare(ctx context.Context, run, sprite string) (ctxMembers map[string]any, err error)
}

// Actor fulfils actions outside of sprites, idempotently by Action.Key. A *lattice.Refusal is the action's failure.
type Actor interface {
	// Inspect looks at what the action would do and returns the policy's verdict; the action comes back with Binding.
	Inspect(ctx context.Context, c lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error)
	Do(ctx context.Context, a lattice.Action) (result []byte, err error)
}
