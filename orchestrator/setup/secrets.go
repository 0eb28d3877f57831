package setup

import (
	"cmp"
	"time"

	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/secret/provider"
	"github.com/spritekit/lattice/orchestrator/settings"
)

// SecretSources returns the secrets of the settings, by name.
func (env *Env) SecretSources() map[string]secret.Source {
	out := map[string]secret.Source{}
	for name, s := range env.Settings.Secrets {
		src := &secret.Source{
			Name: name, Provider: string(s.Provider), Variable: s.VariableOf(name), Skills: s.Skills,
			TTL: cmp.Or(time.Duration(s.TTL), 10*time.Minute), Uses: cmp.Or(s.Uses, 1),
		}
		if len(src.Skills) == 0 {
			src.Skills = settings.SecretSkills()
		}
		switch s.Provider {
		case "env":
			provider.Env(src, s.Env, env.Getenv)
		case "file":
			provider.File(src, env.Expand(s.File))
		case "age":
			provider.Age(src, env.Expand(s.File), env.Expand(s.Identity))
		case "helper":
			provider.Helper(src, append([]string{env.Expand(s.Command[0])}, s.Command[1:]...), env.Environ)
		}
		out[name] = *src
	}
	return out
}
