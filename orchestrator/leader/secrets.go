package leader

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/spritekit/redact"
)

// secretValues returns the values that a proposal of a run must not contain: the variables of its agents, as clients sent
// them or as they are set here, the secrets that its calls were handed, and the credentials of this process.
func (a *agents) secretValues(run string) map[string]string {
	out := map[string]string{}
	if a.credentials != nil {
		maps.Copy(out, a.credentials())
	}
	for name, key := range a.models.Kept() {
		out["the model key "+name] = key
	}
	maps.Copy(out, a.vault.Values(context.Background(), run))
	names := a.records.AgentEnv(run)
	for _, pair := range slices.Concat(a.environment, a.values.Environ(run)) {
		if name, value, ok := strings.Cut(pair, "="); ok && slices.Contains(names, name) && !isPlain(name) {
			out[name] = value
		}
	}
	return out
}

// listKnown returns the secrets that nothing of a run may show: the credentials among its values. It reads them again, because a
// call may have been handed another one.
func (a *agents) listKnown(run string) *redact.Secrets {
	var values []string
	for name, value := range a.secretValues(run) {
		if secret.IsSecret(name, value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	if last, ok := a.secretsOf.Load(run); ok && slices.Equal(last.(knownSecrets).values, values) {
		return last.(knownSecrets).Secrets
	}
	a.all.add(values...)
	s := redact.New(values...)
	a.secretsOf.Store(run, knownSecrets{s, values})
	return s
}

// knownSecrets are the secrets of a run, made of values in order.
type knownSecrets struct {
	*redact.Secrets
	values []string
}

// lastKnown returns the secrets of a run as a call last knew them.
func (a *agents) lastKnown(run string) *redact.Secrets {
	if s, ok := a.secretsOf.Load(run); ok {
		return s.(knownSecrets).Secrets
	}
	return a.listKnown(run)
}

// redactOutput returns the log of a run, which takes output without secrets.
func (a *agents) redactOutput(open func(run, node string) io.Writer) func(run, node string) io.Writer {
	return func(run, node string) io.Writer {
		return redact.NewWriter(open(run, node), func() *redact.Secrets { return a.lastKnown(run) })
	}
}

// isPlain reports whether a variable says by its name that it holds no secret: which model, whose account, where.
func isPlain(name string) bool {
	return slices.ContainsFunc([]string{"_MODEL", "_BASE_URL", "_ORGANIZATION", "_PROJECT"}, func(end string) bool { return strings.HasSuffix(name, end) })
}
