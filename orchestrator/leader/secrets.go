package leader

import (
	"maps"
	"slices"
	"strings"
)

// secretValues are what no proposal of a run may hold: the variables of its agent, as they were given or as they are set
// here, and the credentials of this process.
func (v reviewer) secretValues(run string) map[string]string {
	out := map[string]string{}
	if v.l.cfg.Credentials != nil {
		maps.Copy(out, v.l.cfg.Credentials())
	}
	for name, key := range v.l.models.kept() {
		out["the model key "+name] = key
	}
	names := v.l.agentEnvNames(run)
	for _, pair := range slices.Concat(v.l.cfg.Environ, v.l.agentValues(run)) {
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
