package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Secrets takes the named variables from this process's environment.
func (env *Env) Secrets(names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		value := env.Getenv(name)
		if value == "" {
			return nil, fault.BadInput("agent_env_missing", "--agent-env names %s, which is not set here", name).WithHint("export %s=…", name)
		}
		out[name] = value
	}
	return out, nil
}

// SetValues takes those of the named variables that are set in this process's environment.
func (env *Env) SetValues(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if value := env.Getenv(name); value != "" {
			out[name] = value
		}
	}
	return out
}

// RenewedValues takes the variables that a run was started with from this process's environment, as far as they are set,
// and those that are named now. Values are never stored, so every process that drives a run brings its own.
func (env *Env) RenewedValues(v api.RunView, named []string) (api.Values, error) {
	values, missing, err := readValues(env, v, named)
	if v.Status.Ended() {
		return values, err
	}
	for _, name := range missing {
		fmt.Fprintf(env.Err, "lattice: warning: %s was given to the run's agents at first and is not set here; they go on without it\n", name)
	}
	return values, err
}

// RequiredValues is renewedValues for a run that is about to go on with its agents: it refuses to leave a variable out.
func (env *Env) RequiredValues(v api.RunView, named ...string) (api.Values, error) {
	values, missing, err := readValues(env, v, named)
	if err == nil && len(missing) > 0 {
		err = fault.BadInput("agent_env_missing", "%s was started with %s in its agents' environment, which is not set here", v.RunID, strings.Join(missing, ", ")).WithHint("export %s=…", strings.Join(missing, "=… "))
	}
	return values, err
}

// ResumedValues is requiredValues, unless there is nothing to resume.
func (env *Env) ResumedValues(v api.RunView, named []string) (api.Values, error) {
	if v.Driving || v.Status != lattice.Running && v.Status != lattice.Pending {
		values, _, err := readValues(env, v, named)
		return values, err
	}
	return env.RequiredValues(v, named...)
}

// readValues are the values of a run's variables, and the names of those that neither this process nor the leader has.
func readValues(env *Env, v api.RunView, named []string) (values api.Values, missing []string, err error) {
	if values.Secrets, err = env.Secrets(named); err != nil {
		return values, nil, err
	}
	for _, name := range v.AgentEnv {
		if value := env.Getenv(name); value != "" {
			values.Secrets[name] = value
		} else if slices.Contains(v.MissingEnv, name) {
			missing = append(missing, name)
		}
	}
	models := env.Models()
	keys := models.Named.KeyEnvs()
	if v.StartedWith != nil {
		keys = append(keys, v.StartedWith.ModelKeys...)
	}
	values.ModelKeys = models.keys(keys)
	return values, missing, nil
}
