package leader

import (
	"maps"
	"slices"
	"strings"
)

// secretValues returns the values that a proposal of a run must not contain: the variables of its agents, as clients sent
// them or as they are set here, and the credentials of this process.
func (a *agents) secretValues(run string) map[string]string {
	out := map[string]string{}
	if a.credentials != nil {
		maps.Copy(out, a.credentials())
	}
	for name, key := range a.models.Kept() {
		out["the model key "+name] = key
	}
	names := a.records.AgentEnv(run)
	for _, pair := range slices.Concat(a.environment, a.values.Environ(run)) {
		if name, value, ok := strings.Cut(pair, "="); ok && slices.Contains(names, name) && !isPlain(name) {
			out[name] = value
		}
	}
	return out
}

// isPlain reports whether a variable says by its name that it holds no secret: which model, whose account, where.
func isPlain(name string) bool {
	return slices.ContainsFunc([]string{"_MODEL", "_BASE_URL", "_ORGANIZATION", "_PROJECT"}, func(end string) bool { return strings.HasSuffix(name, end) })
}
