package worktree

import (
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// isOID reports whether s is a full commit id, sha1 or sha256, in lower case.
func isOID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}

// branchRef checks a branch name by git's rules (git help check-ref-format) and a little more strictly: no leading
// dash or "refs/", not HEAD, at most 200 bytes, no bytes beyond printable ASCII and valid letters of other scripts.
func branchRef(branch string) error {
	bad := func(why string) error {
		return gitexec.Refuse("bad_branch", "choose a plain name such as fix/cache", "the branch name %q %s", gitexec.CleanLine(branch), why)
	}
	switch {
	case branch == "":
		return bad("is empty")
	case len(branch) > 200:
		return bad("is longer than 200 bytes")
	case strings.HasPrefix(branch, "-"):
		return bad("starts with a dash")
	case strings.EqualFold(branch, "HEAD"), branch == "@", strings.HasPrefix(strings.ToLower(branch), "refs/"):
		return bad("has a special meaning in git")
	case strings.Contains(branch, ".."), strings.Contains(branch, "@{"), strings.Contains(branch, "//"):
		return bad("holds a sequence that git does not allow")
	case strings.ContainsFunc(branch, func(r rune) bool {
		return r <= 0x20 || r == 0x7f || r == '\uFFFD' || strings.ContainsRune(`~^:?*[\`, r)
	}):
		return bad("holds a character that git does not allow")
	case gitexec.CleanLine(branch) != branch:
		return bad("holds a character that cannot be shown")
	case strings.HasSuffix(branch, "."):
		return bad("ends with a dot")
	}
	for part := range strings.SplitSeq(branch, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(strings.ToLower(part), ".lock") {
			return bad("has a part that is empty, starts with a dot or ends with .lock")
		}
	}
	return nil
}

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
