package remote

import (
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// IsOID reports whether s is a full commit id, sha1 or sha256, in lower case.
func IsOID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}

// CheckBranch checks a branch name by git's rules (git help check-ref-format) and a little more strictly: no leading
// dash or "refs/", not HEAD, at most 200 bytes, no bytes beyond printable ASCII and valid letters of other scripts.
func CheckBranch(branch string) error {
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
