package history

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
)

// BranchPrefix begins the names of branches that runs choose themselves. The run id follows, and a number after the run was
// rewound across a push.
const BranchPrefix = "lattice/"

// OwnBranch returns the name, without the prefix, of a branch that is the run's own, "" for any other branch.
func OwnBranch(branch, run string) string {
	name, ok := strings.CutPrefix(branch, BranchPrefix)
	if ok && (name == run || strings.HasPrefix(name, run+"-")) {
		return name
	}
	return ""
}

// OwnerLabel and a run's id mark the sprite that was made for that run, so that it can be told from a user's own.
const OwnerLabel = api.OwnerLabel

func LabelOf(run string) string { return OwnerLabel + run }

// OwnSprite returns the name of the sprite that is made for a run.
func OwnSprite(run string) string { return strings.ReplaceAll(run, "_", "-") }
