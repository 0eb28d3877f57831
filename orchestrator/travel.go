package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// travelOptions are the flags of the commands that have a run go on from its past.
type travelOptions struct {
	leaderOptions
	agentEnv []string
}

func (o *travelOptions) addFlags(cmd *cobra.Command, d *deps) {
	o.addDetachFlag(cmd)
	o.addWaitFlag(cmd)
	cmd.Flags().StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent (those of the run's start are taken anyway)")
	cmd.ValidArgsFunction = completeRuns(d)
}

// assignments reads the values of --set.
func assignments(sets []string) ([]lattice.Assignment, error) {
	out := make([]lattice.Assignment, len(sets))
	for i, pair := range sets {
		name, value, err := parsePair(pair)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, "$") {
			name = "$vars." + name
		}
		if slices.ContainsFunc(out[:i], func(a lattice.Assignment) bool { return a.Path == name }) {
			return nil, fault.BadInput("key_duplicate", "%s is set twice", name).WithHint("keep one of the two --set")
		}
		out[i] = lattice.Assignment{Path: name, Value: value}
	}
	return out, nil
}
