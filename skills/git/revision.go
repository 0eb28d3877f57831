package git

import (
	"strings"
	"unicode"

	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxRevision is longer than any sane name of a commit, in bytes.
const maxRevision = 1024

// checkRevision refuses options, ranges, paths, and searches through history, which would make one word cost a walk. Names, ids, abbreviations, HEAD, @{upstream}, @{1}, ~2 and ^1 are left to the engine.
func checkRevision(text, pointer string) error {
	bad := text == "" || len(text) > maxRevision || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "^") || strings.Contains(text, "..") ||
		strings.Contains(text, "^{/") || strings.ContainsAny(text, ":*?[\\") ||
		strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	if bad {
		return fault.Unsafe("unsafe", "%s %q is not a revision", pointer, text).
			WithHint("name a branch, a tag, a commit or HEAD, such as HEAD~2")
	}
	return nil
}

// checkRange splits A..B and A...B into both sides and the dots. A side that is left out stands for HEAD.
func checkRange(text, pointer string) (from, dots, to string, err error) {
	from, to, ok := strings.Cut(text, "..")
	if dots = ".."; strings.HasPrefix(to, ".") {
		dots, to = "...", to[1:]
	}
	if !ok || from == "" && to == "" {
		return "", "", "", skill.BadInput(pointer, "%q is not a range such as main..HEAD", text)
	}
	for _, side := range []*string{&from, &to} {
		if *side == "" {
			*side = "HEAD"
		}
		if err := checkRevision(*side, pointer); err != nil {
			return "", "", "", err
		}
	}
	return from, dots, to, nil
}

// checkTreePath refuses a string that is not a path in a commit; "." is its top folder.
func checkTreePath(name, pointer string) error {
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
