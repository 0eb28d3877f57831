package leader

import "strings"

// branchPrefix begins the names of the branches that runs push to by themselves; behind it stands the run, and a number
// once it was taken back behind a push.
const branchPrefix = "lattice/"

// ownBranch is the name behind the prefix of a branch that is the run's own, "" of any other.
func ownBranch(branch, run string) string {
	name, ok := strings.CutPrefix(branch, branchPrefix)
	if ok && (name == run || strings.HasPrefix(name, run+"-")) {
		return name
	}
	return ""
}

// OwnerLabel and a run's id mark the sprite that was made for that run, so that it can be told from a user's own.
const OwnerLabel = "lattice-run:"

func ownerLabel(run string) string { return OwnerLabel + run }

// ownSprite is the name of the sprite that is made for a run.
func ownSprite(run string) string { return strings.ReplaceAll(run, "_", "-") }
