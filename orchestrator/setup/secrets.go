package setup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/github"
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
		case "app":
			env.mintSecret(src, s)
		case "helper":
			provider.Helper(src, append([]string{env.Expand(s.Command[0])}, s.Command[1:]...), env.Environ)
		}
		out[name] = *src
	}
	return out
}

// mintSecret completes a secret that a GitHub App makes: a token for the repositories of a code host, or for the one that the
// request names as its scope.
func (env *Env) mintSecret(src *secret.Source, s settings.Secret) {
	src.From, src.Scoped = "the App of forges."+s.Forge, true
	src.Check = func() error {
		_, err := env.CodeHosts().Client(s.Forge)
		return err
	}
	src.Resolve = func(ctx context.Context, r secret.Request) (string, error) {
		c, err := env.CodeHosts().Client(s.Forge)
		if err != nil {
			return "", err
		}
		scope, scoped := forge.ParsePath(r.Scope)
		var names []string
		for _, p := range forgePaths(env.Settings.Forges[s.Forge]) {
			if r.Scope == "" || scoped && p.Equal(scope) {
				names = append(names, p.Name)
			}
		}
		if len(names) == 0 {
			return "", fmt.Errorf("forges.%s has no repository %.128q", s.Forge, r.Scope)
		}
		permissions := s.Permissions
		if len(permissions) == 0 {
			permissions = map[string]string{"contents": "read"}
		}
		token, err := c.(*github.Client).App().Mint(ctx, names, permissions)
		if err != nil {
			return "", err
		}
		return secret.Clean(token)
	}
}
