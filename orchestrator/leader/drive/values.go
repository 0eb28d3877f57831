package drive

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
)

// Values holds the variables that agents of runs see. Their values are kept for as long as this process leads and are never
// stored. It is safe for concurrent use.
type Values struct {
	Models *ModelSet

	mu  sync.Mutex
	env map[string][]string // guarded by mu: KEY=VALUE, by run
}

// Keep stores the values of the named variables for a run, and the keys of models. Values of other variables are ignored.
func (vs *Values) Keep(run string, names []string, v api.Values) {
	vs.Models.keepKeys(v.ModelKeys)
	var env []string
	for _, name := range names {
		if value, ok := v.Secrets[name]; ok {
			env = append(env, name+"="+value)
		}
	}
	if env == nil {
		return
	}
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.env == nil {
		vs.env = map[string][]string{}
	}
	vs.env[run] = env
}

// forgetRun drops the values of a run.
func (vs *Values) forgetRun(run string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.env, run)
}

// Environ returns the variables of a run's agents, as KEY=VALUE.
func (vs *Values) Environ(run string) []string {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return slices.Clone(vs.env[run])
}

// Runs lists the runs that have values.
func (vs *Values) Runs() []string {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return slices.Collect(maps.Keys(vs.env))
}

// ListMissing returns those of names whose values this process does not have for a run.
func (vs *Values) ListMissing(run string, names []string) (missing []string) {
	env := vs.Environ(run)
	for _, name := range names {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// exportRun returns the values of a run and all model keys, for the next leader.
func (vs *Values) exportRun(run string) api.Values {
	secrets := map[string]string{}
	for _, kv := range vs.Environ(run) {
		name, value, _ := strings.Cut(kv, "=")
		secrets[name] = value
	}
	return api.Values{Secrets: secrets, ModelKeys: vs.Models.Kept()}
}
