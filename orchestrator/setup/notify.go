package setup

import (
	"errors"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/notify"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Channel returns the channel of a name in the settings, with its address and secret.
func (env *Env) Channel(name string) (notify.Channel, error) {
	s, ok := env.Settings.Channels[name]
	if !ok {
		return notify.Channel{}, fault.NotFound("channel_not_found", "the settings have no channel %q", name).WithHint("add [channels.%s] to the settings; lattice notify ls lists those there are", name)
	}
	c := notify.Channel{Name: name, Kind: notify.Kind(s.Kind), MinLevel: string(s.MinLevel)}
	var err error
	if c.URL, err = env.resolveReference(s.URL, s.URLEnv, s.URLFile); err == nil {
		c.Secret, err = env.resolveReference("", s.SecretEnv, s.SecretFile)
	}
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return c, fault.BadInput("channel_unusable", "the channel %s cannot be used: %v", name, err).WithHint("correct [channels.%s] in the settings", name)
	}
	return c, nil
}

// resolveReference returns a value, or the content of the variable or of the file that is named instead of it.
func (env *Env) resolveReference(value, variable, file string) (string, error) {
	switch {
	case variable != "":
		if value = env.Getenv(variable); value == "" {
			return "", fmt.Errorf("the variable %s is not set", variable)
		}
	case file != "":
		text, err := readToken(env.Expand(file))
		if p, ok := errors.AsType[*fault.Error](err); ok {
			return "", errors.New(p.Message)
		}
		return text, err
	}
	return value, nil
}

// Notifications returns the settings of the leader's notifications.
func (env *Env) Notifications() leader.Notify {
	return leader.Notify{Channels: env.Channel, Default: env.Settings.Notify.Channel, On: convertTexts(env.Settings.Notify.On)}
}

// convertTexts returns values as text.
func convertTexts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
