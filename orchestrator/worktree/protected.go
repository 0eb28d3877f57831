package worktree

import (
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// checkProtected refuses protected branches. It ignores case, because the ref storage of some remotes does.
func (g *Git) checkProtected(branch, defaultBranch string) error {
	name := strings.ToLower(branch)
	for _, pattern := range g.protected {
		pattern = strings.ToLower(pattern)
		dir, deep := strings.CutSuffix(pattern, "/**")
		match, err := path.Match(pattern, name)
		if err != nil { // treat a malformed pattern as a match: fail closed
			match = true
		}
		if match || (deep && strings.HasPrefix(name, dir+"/")) {
			return gitexec.Refuse("protected_branch", "push to another branch and open a pull request", "the branch %s is protected", branch)
		}
	}
	if defaultBranch != "" && strings.EqualFold(branch, defaultBranch) {
		return gitexec.Refuse("protected_branch", "push to another branch and open a pull request", "the branch %s is protected: it is the remote's default branch", branch)
	}
	return nil
}
