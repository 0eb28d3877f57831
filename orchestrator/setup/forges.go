package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/dialogue"
	"github.com/spritekit/lattice/orchestrator/settings"
)

// Forges returns the code hosts of the settings, which were checked when they were read.
func (env *Env) Forges() map[string]leader.Forge {
	all := map[string]leader.Forge{}
	secrets := env.scheduledSecrets()
	for name, s := range env.Settings.Forges {
		plan, work := env.commandRequest(s.Input, s), env.commandRequest(workInput(s), s)
		all[name] = leader.Forge{
			Client: func() (forge.Client, error) { return env.CodeHosts().Client(name) }, Repositories: forgePaths(s), Poll: time.Duration(s.Poll), Forks: s.Forks, Labels: s.Labels,
			Secret: func() (string, error) { return env.resolveReference("", s.WebhookSecretEnv, s.WebhookSecretFile) },
			Plan:   plan, Work: work, WorkLacks: workLacks(name, work), Secrets: mergeSecrets(secrets, plan.Secrets, work.Secrets),
		}
	}
	return all
}

// commandRequest returns the request for the intents of commands in comments, without the issue.
func (env *Env) commandRequest(members map[string]any, s settings.Forge) api.IntentRequest {
	input, err := json.Marshal(members)
	if err != nil || members == nil {
		input = nil
	}
	names, routes, _, _ := env.Agents().findPreset(env.Agents().WithEnv(slices.Clone(s.AgentEnv)), input)
	return api.IntentRequest{Input: input, AgentEnv: names, Routes: routes, Values: api.Values{Secrets: env.Values().Set(names)}}
}

// workInput returns the input of the flow that carries out a plan.
func workInput(s settings.Forge) map[string]any {
	input := map[string]any{}
	if s.Work["agent"] == nil && s.Work["agent_command"] == nil {
		for _, name := range dialogue.AgentInput() {
			if v, ok := s.Input[name]; ok {
				input[name] = v
			}
		}
	}
	maps.Copy(input, s.Work)
	return input
}

// workLacks says which setting is missing for carrying out plans, "" if none is.
func workLacks(name string, work api.IntentRequest) string {
	var in struct {
		Agent   any `json:"agent"`
		Command any `json:"agent_command"`
	}
	if err := json.Unmarshal(work.Input, &in); err == nil && in.Agent == nil && in.Command == nil {
		return fmt.Sprintf(`the settings name no agent: set work = { agent = "claude" } in [forges.%s] of the settings`, name)
	}
	return ""
}

// mergeSecrets returns the values of all variables.
func mergeSecrets(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}
