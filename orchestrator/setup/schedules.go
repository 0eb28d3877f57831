package setup

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/intents"
	"github.com/spritekit/lattice/orchestrator/schedule"
)

// Schedules returns the schedules of the settings, which were checked when they were read.
func (env *Env) Schedules() map[string]intents.Schedule {
	all := map[string]intents.Schedule{}
	for name, s := range env.Settings.Schedules {
		cron, err := schedule.Parse(s.Cron)
		if err != nil {
			continue
		}
		zone := time.Local
		if s.Zone != "" {
			if zone, err = time.LoadLocation(s.Zone); err != nil {
				continue
			}
		}
		input, err := json.Marshal(s.Input)
		if err != nil || s.Input == nil {
			input = nil
		}
		subject := s.Subject
		if subject == "" {
			subject = "schedule " + name
		}
		names, routes, _, _ := env.findPreset(env.WithAgentEnv(slices.Clone(s.AgentEnv)), input)
		all[name] = intents.Schedule{Cron: cron, Text: s.Cron, Zone: zone, Cooldown: time.Duration(s.Cooldown),
			Request: api.IntentRequest{Kind: s.Kind, Subject: subject, Signal: "schedule", Repo: s.Repo, Input: input,
				AgentEnv: names, Routes: routes, Values: api.Values{Secrets: env.SetValues(names)}}}
	}
	return all
}
