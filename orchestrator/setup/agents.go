package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/modelroute"
	"github.com/spritekit/lattice/orchestrator/secret"
)

// agentPreset lists the variables of this process that an agent gets when a run names it, if they are set. The address of a
// gateway goes with the key that is meant for it.
type agentPreset struct {
	providers []string // reached through the host; their keys stay outside of the sprite
	vars      []string // handed over
	keyless   bool     // it has models that need no key
}

// agentPresets lists the agents that have one, by their program. Of providers without a route the key itself is handed over.
func agentPresets() map[string]agentPreset {
	return map[string]agentPreset{
		"claude": {
			providers: []string{"anthropic"},
			vars: []string{
				"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
			},
		},
		"codex":    {providers: []string{"openai"}, vars: []string{"OPENAI_ORGANIZATION", "OPENAI_PROJECT"}},
		"gemini":   {providers: []string{"google"}, vars: []string{"GEMINI_MODEL"}},
		"opencode": {providers: []string{"anthropic", "openai", "google", "openrouter"}, keyless: true},
		"openclaw": {providers: []string{"anthropic", "openai", "openrouter"}},
	}
}

// agentOf is the agent that a flow's inputs name, "" for none.
func agentOf(input json.RawMessage) string {
	var in struct {
		Agent any `json:"agent"`
	}
	_ = json.Unmarshal(input, &in) // the flow refuses other inputs
	name, _ := in.Agent.(string)
	return name
}

// Agents chooses the variables and routes that agents get from the environment and the settings.
type Agents struct{ env *Env }

// Agents returns the agents as this environment equips them.
func (env *Env) Agents() Agents { return Agents{env} }

// WithEnv adds to the names of variables those of the settings that are set here.
func (a Agents) WithEnv(names []string) []string {
	for _, name := range a.env.Settings.Run.AgentEnv {
		if a.env.Getenv(name) != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Preset adds to the names of variables those that the preset of the inputs' agent takes from this environment, and
// says so. A variable that named has already is handed over as it is, and its provider gets no route.
func (a Agents) Preset(named []string, input json.RawMessage) (names, routes []string) {
	names, routes, outside, inside := a.findPreset(named, input)
	if len(outside) > 0 {
		fmt.Fprintf(a.env.Err, "agent %s: asks models through the host, by %s; the key stays outside of the sprite\n", agentOf(input), strings.Join(outside, ", "))
	}
	if len(inside) > 0 {
		fmt.Fprintf(a.env.Err, "agent %s: gets %s\n", agentOf(input), strings.Join(inside, ", "))
	}
	a.warnOfHandedOver(names)
	return names, routes
}

// findPreset returns the names and routes of Preset, the variables with which the host asks models outside, and the variables
// of the preset that the agent gets.
func (a Agents) findPreset(named []string, input json.RawMessage) (names, routes, outside, inside []string) {
	preset, ok := agentPresets()[ProgramOf(agentOf(input))]
	if !ok {
		return named, nil, nil, nil
	}
	names = named
	for _, provider := range preset.providers {
		p, _ := modelroute.Find(provider)
		if slices.ContainsFunc(p.Vars(), func(name string) bool { return slices.Contains(names, name) }) {
			continue
		}
		set := slices.DeleteFunc(p.Vars(), func(name string) bool { return a.env.Getenv(name) == "" })
		key := slices.ContainsFunc(set, func(name string) bool { return slices.Contains(p.KeyVars, name) })
		configured := slices.ContainsFunc(a.Providers(), func(s leader.ModelProvider) bool { return s.Name == provider })
		switch {
		case !key && !configured:
			continue
		case a.env.RemoteSprites() != nil: // they do not reach this machine
			inside = append(inside, set...)
			continue
		case !key:
			outside = append(outside, "the key of the settings for "+provider)
			set = nil // the address goes with its own key
		}
		outside = append(outside, set...)
		names = append(names, set...)
		routes = append(routes, provider)
	}
	for _, name := range preset.vars {
		if a.env.Getenv(name) != "" && !slices.Contains(names, name) {
			inside = append(inside, name)
		}
	}
	names = append(names, slices.DeleteFunc(slices.Clone(inside), func(name string) bool { return slices.Contains(names, name) })...)
	return names, routes, outside, inside
}

// warnOfHandedOver warns that keys which are handed to a remote sprite remain there.
func (a Agents) warnOfHandedOver(names []string) {
	if a.env.RemoteSprites() == nil {
		return
	}
	var keys []string
	for _, name := range names {
		if value := a.env.Getenv(name); value != "" && secret.IsSecret(name, value) {
			keys = append(keys, name)
		}
	}
	if len(keys) > 0 {
		fmt.Fprintf(a.env.Err, "warning: the remote sprite gets %s itself; lattice takes it out of the agent's files when the call ends and before each checkpoint that lattice takes, but not out of copies elsewhere, nor out of checkpoints that the service or others take\n", strings.Join(keys, ", "))
	}
}

// MissingKey says that the inputs' agent has no key, with a hint; both are "" when it has one. names and routes are those of
// AgentPreset; with a variable of the person's own the agent may need no key.
func (a Agents) MissingKey(input json.RawMessage, names, routes []string) (problem, hint string) {
	name := agentOf(input)
	preset, ok := agentPresets()[ProgramOf(name)]
	if !ok || preset.keyless || len(routes) > 0 || slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains(preset.vars, name) || strings.HasSuffix(name, "_KEY")
	}) {
		return "", ""
	}
	keys := slices.DeleteFunc(slices.Clone(preset.vars), func(name string) bool { return !strings.HasSuffix(name, "_KEY") })
	also := ""
	for _, provider := range preset.providers {
		p, _ := modelroute.Find(provider)
		keys = append(keys, p.KeyVars...)
		if a.env.Getenv(p.BaseVar) != "" {
			also = ", although " + p.BaseVar + " is"
		}
	}
	return fmt.Sprintf("the agent %s has no key: %s is not set%s", name, strings.Join(keys, " or "), also),
		"export " + keys[0] + ", name a model with a key in the settings, or pass another credential with --agent-env NAME"
}

// Providers are the providers of the settings that have a key, the first model of each.
func (a Agents) Providers() (all []leader.ModelProvider) {
	models := a.env.Models()
	classes := models.Named.Classes
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		m := classes[class]
		name := m.Provider
		if _, ok := modelroute.Find(name); !ok || m.KeyEnv+m.KeyFile == "" || slices.ContainsFunc(all, func(p leader.ModelProvider) bool { return p.Name == name }) {
			continue
		}
		all = append(all, leader.ModelProvider{Name: name, Base: m.BaseURL, Key: func(sent func(string) string) (string, error) { return models.findKey(m, sent) }})
	}
	return all
}

// ProgramOf returns the program of an agent: two agents are one program if they differ in the protocol that it speaks.
func ProgramOf(agent string) string { return strings.TrimSuffix(agent, "-acp") }

// AgentNames are the programs of agents that may be on this machine.
var AgentNames = []string{"claude", "codex", "gemini", "opencode", "openclaw", "aider", "amp", "goose", "cursor-agent", "copilot", "qwen", "crush"}
