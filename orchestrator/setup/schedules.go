package setup

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/intents"
	"github.com/spritekit/lattice/orchestrator/schedule"
	"github.com/spritekit/lattice/orchestrator/settings"
)

// Schedules returns the schedules of the settings, which were checked when they were read.
func (env *Env) Schedules() map[string]intents.Schedule {
	all := map[string]intents.Schedule{}
	for name, s := range env.Settings.Schedules {
		cron, err := schedule.Parse(s.Cron)
		if err != nil && s.Cron != "" {
			continue
		}
		zone := time.Local
		if s.Zone != "" {
			if zone, err = time.LoadLocation(s.Zone); err != nil {
				continue
			}
		}
		subject := s.Subject
		if subject == "" {
			subject = "schedule " + name
		}
		request := env.scheduledRequest(s.Input, s.AgentEnv)
		request.Kind, request.Subject, request.Signal, request.Repo = s.Kind, subject, "schedule", s.Repo
		remedy := env.scheduledRequest(s.Remedy, s.AgentEnv)
		if s.PullRequest {
			remedy.Kind = "pr_create_from_plan"
		}
		all[name] = intents.Schedule{Cron: cron, Text: s.Cron, OnPush: s.OnPush, Zone: zone, Cooldown: time.Duration(s.Cooldown), Request: request,
			Severity: string(s.Severity), Repairs: s.Severity.Repairs(), Urgent: s.Severity == settings.Critical, Remedy: remedy}
	}
	return all
}

// scheduledSecrets returns the values of the variables that the settings hand to agents of schedules.
func (env *Env) scheduledSecrets() map[string]string {
	all := map[string]string{}
	for _, s := range env.Schedules() {
		maps.Copy(all, s.Request.Secrets)
		maps.Copy(all, s.Remedy.Secrets)
	}
	return all
}

// scheduledRequest returns a request with an input, and the variables that agents of its run get.
func (env *Env) scheduledRequest(input map[string]any, agentEnv []string) (r api.IntentRequest) {
	if input != nil {
		if raw, err := json.Marshal(input); err == nil { // it was read from TOML
			r.Input = raw
		}
	}
	r.AgentEnv, r.Routes, _, _ = env.Agents().findPreset(env.Agents().WithEnv(slices.Clone(agentEnv)), r.Input)
	r.Values = api.Values{Secrets: env.Values().Set(r.AgentEnv)}
	return r
}
