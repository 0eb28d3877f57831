package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Values takes the values of variables from the environment of this process.
type Values struct{ env *Env }

// Values returns the values that this environment has.
func (env *Env) Values() Values { return Values{env} }

// Named takes the named variables from this process's environment.
func (from Values) Named(names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		value := from.env.Getenv(name)
		if value == "" {
			return nil, fault.BadInput("agent_env_missing", "--agent-env names %s, which is not set here", name).WithHint("export %s=…", name)
		}
		out[name] = value
	}
	return out, nil
}

// Set takes those of the named variables that are set in this process's environment.
func (from Values) Set(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if value := from.env.Getenv(name); value != "" {
			out[name] = value
		}
	}
	return out
}

// Renew takes the variables that a run was started with from this process's environment, as far as they are set,
// and those that are named now. Values are never stored, so every process that drives a run brings its own.
func (from Values) Renew(v api.RunView, named []string) (api.Values, error) {
	values, missing, err := from.readAll(v, named)
	if v.Status.Ended() {
		return values, err
	}
	for _, name := range missing {
		fmt.Fprintf(from.env.Err, "lattice: warning: %s was given to the run's agents at first and is not set here; they go on without it\n", name)
	}
	return values, err
}

// Require is Renew for a run that is about to go on with its agents: it refuses to leave a variable out.
func (from Values) Require(v api.RunView, named ...string) (api.Values, error) {
	values, missing, err := from.readAll(v, named)
	if err == nil && len(missing) > 0 {
		err = fault.BadInput("agent_env_missing", "%s was started with %s in its agents' environment, which is not set here", v.RunID, strings.Join(missing, ", ")).WithHint("export %s=…", strings.Join(missing, "=… "))
	}
	return values, err
}

// Resume is Require, unless there is nothing to resume.
func (from Values) Resume(v api.RunView, named []string) (api.Values, error) {
	if v.Driving || v.Status != lattice.Running && v.Status != lattice.Pending {
		values, _, err := from.readAll(v, named)
		return values, err
	}
	return from.Require(v, named...)
}

// readAll are the values of a run's variables, and the names of those that neither this process nor the leader has.
func (from Values) readAll(v api.RunView, named []string) (values api.Values, missing []string, err error) {
	if values.Secrets, err = from.Named(named); err != nil {
		return values, nil, err
	}
	for _, name := range v.AgentEnv {
		if value := from.env.Getenv(name); value != "" {
			values.Secrets[name] = value
		} else if slices.Contains(v.MissingEnv, name) {
			missing = append(missing, name)
		}
	}
	models := from.env.Models()
	keys := models.Named.KeyEnvs()
	if v.StartedWith != nil {
		keys = append(keys, v.StartedWith.ModelKeys...)
	}
	values.ModelKeys = models.readKeys(keys)
	return values, missing, nil
}
