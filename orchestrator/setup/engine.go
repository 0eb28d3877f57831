package setup

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Engine connects to the engine that the settings name; nil if they name none.
func (env *Env) Engine(ctx context.Context) (drive.Engine, error) {
	switch {
	case env.Settings.Engine.Temporal == "":
		return nil, nil
	case env.OpenEngine == nil:
		return nil, fault.Unsupported("engine_missing", "the settings have runs scheduled by Temporal at %s, and this lattice is built without it", env.Settings.Engine.Temporal).WithHint("take [engine] out of the settings, or use the lattice of make temporal, bin/temporal/lattice")
	}
	return env.OpenEngine(ctx, env)
}
