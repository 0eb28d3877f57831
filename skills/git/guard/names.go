package guard

import (
	"cmp"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// CheckDest refuses the workspace, the runtime's folder, and a .git or a path in one as the place of a new work tree. In a
// .git, git would take files of others for its own configuration and hooks. kind is for messages, such as "a clone".
func CheckDest(c *skill.Call, dest, kind string) error {
	if dest == "." || c.Root.Reserved(dest) {
		return fault.Unsafe("reserved_path", "%s cannot take the place of %s", kind, dest).WithHint("name a folder below the workspace")
	}
	parent, err := c.Root.Real(path.Dir(dest))
	if err != nil {
		return err
	}
	for _, name := range []string{dest, path.Join(parent, path.Base(dest))} {
		if problem := patch.Judge(name, false); problem != "" {
			return fault.Unsafe("git_internals", "%s cannot take the place of %s: it %s", kind, dest, problem).
				WithHint("name a folder that is outside of any .git")
		}
	}
	return nil
}

// MaxRevision bounds the name of a commit, in bytes.
const MaxRevision = 1024

// CheckRevision refuses options, ranges, paths, and searches through history, which may be slow. The engine checks names,
// ids, abbreviations, HEAD, @{upstream}, @{1}, ~2 and ^1.
func CheckRevision(text, pointer string) error {
	bad := text == "" || len(text) > MaxRevision || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "^") || strings.Contains(text, "..") ||
		strings.Contains(text, "^{/") || strings.ContainsAny(text, ":*?[\\") ||
		strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	if bad {
		return fault.Unsafe("unsafe", "%s %q is not a revision", pointer, text).
			WithHint("name a branch, a tag, a commit or HEAD, such as HEAD~2")
	}
	return nil
}

// CheckRange splits A..B and A...B into both sides and the dots. An omitted side is HEAD.
func CheckRange(text, pointer string) (from, dots, to string, err error) {
	from, to, ok := strings.Cut(text, "..")
	if dots = ".."; strings.HasPrefix(to, ".") {
		dots, to = "...", to[1:]
	}
	if !ok || from == "" && to == "" {
		return "", "", "", skill.BadInput(pointer, "%q is not a range such as main..HEAD", text)
	}
	for _, side := range []*string{&from, &to} {
		*side = cmp.Or(*side, "HEAD")
		if err := CheckRevision(*side, pointer); err != nil {
			return "", "", "", err
		}
	}
	return from, dots, to, nil
}

// CheckTreePath refuses a string that is not a path in a commit; "." is its top folder.
func CheckTreePath(name, pointer string) error {
	if name == "." {
		return nil
	}
	problem := patch.Judge(name, false)
	if problem == "" && strings.ContainsFunc(name, unicode.IsControl) {
		problem = "holds control characters"
	}
	if problem != "" {
		return fault.Unsafe("unsafe_path", "%s %q %s", pointer, name, problem).WithHint("name a file relative to the top of the repository")
	}
	return nil
}

// Names are checked by loops, because a global regular expression would be compiled at the start of every skill.

// IsRemoteName reports whether s is the name of a remote.
func IsRemoteName(s string) bool {
	return s != "" && (IsAlphanumeric(s[0]) || s[0] == '_') && Consists(s, func(c byte) bool { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-' })
}

// IsTrailerName reports whether s is the key of a trailer of a commit message.
func IsTrailerName(s string) bool {
	return s != "" && isLetter(s[0]) && Consists(s, func(c byte) bool { return IsAlphanumeric(c) || c == '-' })
}

// Consists reports whether of accepts every byte of s.
func Consists(s string, of func(byte) bool) bool {
	for i := range len(s) {
		if !of(s[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// IsAlphanumeric reports whether c is an ASCII letter or digit.
func IsAlphanumeric(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' }

// CheckRef refuses a string that is not the plain name of a branch or tag, by the rules of git check-ref-format.
func CheckRef(name, pointer string) error {
	bad := name == "" || name == "@" || name == "HEAD" || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "//") ||
		strings.Contains(name, "@{") || strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, unicode.IsControl)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return fault.Unsafe("unsafe", "%s %q is not the name of a branch or tag", pointer, name).
			WithHint("name it in full, such as main or v1.2; where a commit will do, git.rev_parse gives the id of HEAD~1 and the like")
	}
	return nil
}

// CheckPaths refuses paths that leave the repository or reach into .git.
func CheckPaths(paths []string) error {
	for i, p := range paths {
		first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(p)), "/")
		if p == "" || strings.ContainsRune(p, 0) || !filepath.IsLocal(p) || strings.EqualFold(first, ".git") {
			return fault.Unsafe("unsafe_path", "/paths/%d %q is not a path inside the repository", i, p).
				WithHint("name files relative to the top of the repository")
		}
	}
	return nil
}
