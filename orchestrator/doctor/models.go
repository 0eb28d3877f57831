package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/setup"
)

// lookAtModels says which model classes the settings name, and whether they could be asked. Nothing is sent.
func lookAtModels(_ context.Context, env *setup.Env) []Check {
	if len(env.Settings.Models) == 0 {
		return []Check{newCheck("models", OK, "", "none; flows that ask models need them in the settings, such as [models.SMALL_EXEC]")}
	}
	client, err := env.Models().Client()
	if err != nil {
		return []Check{newCheck("models", Fail, "correct the settings", "%v", err)}
	}
	var checks []Check
	for _, name := range slices.Sorted(maps.Keys(env.Settings.Models)) {
		m := env.Settings.Models[name]
		what := fmt.Sprintf("%s is %s of %s", name, m.Model, m.Provider)
		if m.BaseURL != "" {
			what += " at " + m.BaseURL
		}
		switch err := client.Ready(name, false); {
		case err != nil:
			checks = append(checks, newCheck("models", Warn, "see the part about models in lattice run --help", "%v", err))
		case m.InputUSD == nil || m.OutputUSD == nil:
			checks = append(checks, newCheck("models", OK, "", "%s, without prices: flows with max_cost_usd cannot ask it", what))
		default:
			checks = append(checks, newCheck("models", OK, "", "%s", what))
		}
	}
	return checks
}
