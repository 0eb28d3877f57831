package travel

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// assignments reads the values of --set.
func assignments(sets []string) ([]lattice.Assignment, error) {
	out := make([]lattice.Assignment, len(sets))
	for i, pair := range sets {
		name, value, err := cli.ParsePair(pair)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, "$") {
			name = "$vars." + name
		}
		if slices.ContainsFunc(out[:i], func(a lattice.Assignment) bool { return a.Path == name }) {
			return nil, fault.BadInput("key_duplicate", "%s is set twice", name).WithHint("keep one of the two --set flags")
		}
		out[i] = lattice.Assignment{Path: name, Value: value}
	}
	return out, nil
}
