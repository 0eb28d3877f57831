package native

import (
	"errors"
	"fmt"
	"strings"
)

var errHostile = errors.New("hostile path")

// verifyPath refuses paths that git does not let into an index, whatever the file system: empty, "." and ".." elements
// and every spelling of .git that some file system takes for it. Symlinks may not be called .gitmodules either.
func verifyPath(path string, symlink bool) error {
	bad := path == "" || strings.IndexByte(path, 0) >= 0 || strings.IndexByte(path, '\\') >= 0 && hasBackslashGit(path)
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || !safeName(part) || symlink && isDotGitX(part, "modules", "gi7eba")
	}
	if bad {
		return fmt.Errorf("%w: %q", errHostile, path)
	}
	return nil
}

// hasBackslashGit judges the parts between backslashes, which NTFS takes for slashes.
func hasBackslashGit(path string) bool {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if isNTFSDotGit(part) {
			return true
		}
	}
	return false
}

// safeName judges one element of a path.
func safeName(name string) bool {
	return name != "" && name != "." && name != ".." && !isHFSDotGit(name) && !isNTFSDotGit(name)
}

// isHFSDotGit finds .git in any case with characters strewn in that HFS+ ignores.
func isHFSDotGit(name string) bool { return strings.EqualFold(withoutIgnored(name), ".git") }

// withoutIgnored drops the characters that HFS+ does not see in names.
func withoutIgnored(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
}

// isNTFSDotGit finds .git and git~1 in any case, followed by what NTFS does not see: blanks and dots at the end, a
// stream.
func isNTFSDotGit(name string) bool {
	for _, prefix := range []string{".git", "git~1"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && ntfsEnds(name[len(prefix):]) {
			return true
		}
	}
	return false
}

// ntfsEnds reports whether NTFS sees nothing in the rest of a name.
func ntfsEnds(rest string) bool {
	rest, _, _ = strings.Cut(rest, ":")
	rest, _, _ = strings.Cut(rest, `\`)
	return strings.Trim(rest, " .") == ""
}

// isDotGitX finds .gitmodules and the like (x is what follows .git) as HFS+ and NTFS would: by itself, and by the short
// names that NTFS makes, git...~1 to ~4 and those of hash.
func isDotGitX(name, x, hash string) bool {
	if strings.EqualFold(withoutIgnored(name), ".git"+x) {
		return true
	}
	if len(name) >= 4+len(x) && strings.EqualFold(name[:4+len(x)], ".git"+x) && ntfsEnds(name[4+len(x):]) {
		return true
	}
	lower := strings.ToLower(name)
	first := ("git" + x)[:6]
	if len(lower) >= 8 && lower[:6] == first && lower[6] == '~' && '1' <= lower[7] && lower[7] <= '4' {
		return ntfsEnds(name[8:])
	}
	return shortHash(lower, hash)
}

// shortHash finds the names of NTFS that begin with a part of hash, then ~ and digits, eight characters in all.
func shortHash(name, hash string) bool {
	if len(name) < 8 || !ntfsEnds(name[8:]) {
		return false
	}
	tilde := strings.IndexByte(name[:8], '~')
	if tilde < 0 || tilde > 6 || tilde == 7 || !strings.HasPrefix(hash, name[:tilde]) {
		return false
	}
	for i, c := range []byte(name[tilde+1 : 8]) {
		if c < '0' || c > '9' || i == 0 && c == '0' {
			return false
		}
	}
	return true
}
