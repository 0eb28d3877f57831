package history

import "strings"

// BranchPrefix begins the names of the branches that runs push to by themselves; behind it stands the run, and a number
// once it was taken back behind a push.
const BranchPrefix = "lattice/"

// OwnBranch is the name behind the prefix of a branch that is the run's own, "" of any other.
func OwnBranch(branch, run string) string {
	name, ok := strings.CutPrefix(branch, BranchPrefix)
	if ok && (name == run || strings.HasPrefix(name, run+"-")) {
		return name
	}
	return ""
}

// OwnerLabel and a run's id mark the sprite that was made for that run, so that it can be told from a user's own.
const OwnerLabel = "lattice-run:"

func LabelOf(run string) string { return OwnerLabel + run }

// OwnSprite is the name of the sprite that is made for a run.
func OwnSprite(run string) string { return strings.ReplaceAll(run, "_", "-") }
