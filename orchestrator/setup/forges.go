package setup

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/settings"
)

// Forges returns the code hosts of the settings, which were checked when they were read.
func (env *Env) Forges() map[string]leader.Forge {
	all := map[string]leader.Forge{}
	for name, s := range env.Settings.Forges {
		all[name] = leader.Forge{
			Client: func() (forge.Client, error) { return env.CodeHosts().Client(name) }, Repositories: forgePaths(s), Poll: time.Duration(s.Poll), Forks: s.Forks, Labels: s.Labels,
			Secret: func() (string, error) { return env.resolveReference("", s.WebhookSecretEnv, s.WebhookSecretFile) },
			Plan:   env.planRequest(s),
		}
	}
	return all
}

// planRequest returns the request for the intents of commands in comments, without the issue.
func (env *Env) planRequest(s settings.Forge) api.IntentRequest {
	input, err := json.Marshal(s.Input)
	if err != nil || s.Input == nil {
		input = nil
	}
	names, routes, _, _ := env.Agents().findPreset(env.Agents().WithEnv(slices.Clone(s.AgentEnv)), input)
	return api.IntentRequest{Input: input, AgentEnv: names, Routes: routes, Values: api.Values{Secrets: env.Values().Set(names)}}
}
