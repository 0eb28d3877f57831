package doctor

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// lookAtSchedules checks whether a process follows the schedules of the settings.
func lookAtSchedules(ctx context.Context, env *setup.Env) []Check {
	if len(env.Settings.Schedules) == 0 {
		return nil
	}
	c := api.NewClient(home.Home(env.Home).Socket())
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	hello, err := c.Hello(ctx)
	return []Check{judgeSchedules(len(env.Settings.Schedules), err == nil && hello.Serving)}
}

func judgeSchedules(n int, followed bool) Check {
	if followed {
		return newCheck("schedules", OK, "", "lattice serve follows %s", cli.Count(n, "schedule", "schedules"))
	}
	return newCheck("schedules", Warn, "start lattice serve, or let systemd do it: see [schedules.NAME] in docs/config.md",
		"no lattice serve leads, so nothing follows %s of the settings", cli.Count(n, "schedule", "schedules"))
}
