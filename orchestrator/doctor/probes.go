package doctor

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// Probes returns all probes. Throw-away sprites are shown tools, and get the spritekit that is named, if any.
func Probes(env *setup.Env, tools []string, spritekit string) []Probe {
	with := func(look func(context.Context, *setup.Env) []Check) func(context.Context) []Check {
		return func(ctx context.Context) []Check { return look(ctx, env) }
	}
	return []Probe{
		{Name: "leader", Limit: storeLimit, Look: with(lookAtLeader)},
		{Name: "state", Look: with(lookAtState)},
		{Name: "kernel", Look: lookAtKernel},
		{Name: "kernel limits", Look: lookAtKernelLimits},
		{Name: "storage", Look: with(lookAtStorage)},
		{Name: "git", Look: lookAtGit},
		{Name: "urls", Look: lookAtURLs},
		{Name: "spritekit", Look: func(ctx context.Context) []Check { return lookAtSpritekit(ctx, env, spritekit) }},
		{Name: "settings", Look: with(lookAtSettings)},
		{Name: "schedules", Look: with(lookAtSchedules)},
		{Name: "models", Look: with(lookAtModels)},
		{Name: "remote", Look: with(lookAtRemote)},
		{Name: "sprites", Limit: trialLimit, Look: func(ctx context.Context) []Check { return lookIntoSprites(ctx, env, tools) }},
	}
}
