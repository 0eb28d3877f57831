package fs

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/spritekit/lattice/spritekit/skill"
)

// globs are patterns of paths, as compiled from an input.
type globs []string

const (
	maxGlob   = 1024
	maxBraces = 8
)

// newGlobs judges the patterns of an input. A pattern may have ** for any number of folders, and {a,b} for either.
func newGlobs(pointer string, patterns ...string) (globs, error) {
	for _, p := range patterns {
		if p == "" || !doublestar.ValidatePattern(p) {
			return nil, skill.BadInput(pointer, "%q is no pattern", p).WithHint("a pattern is like src/**/*.{js,ts}; a backslash takes the meaning from the character after it")
		}
		// A brace in a brace in a brace takes time that grows with the product of all of them.
		if len(p) > maxGlob || strings.Count(p, "{") > maxBraces {
			return nil, skill.BadInput(pointer, "%.20q… has more than %d bytes or %d braces", p, maxGlob, maxBraces).WithHint("split it into several patterns or calls")
		}
		if path.IsAbs(p) || strings.HasPrefix(path.Clean(p), "../") {
			return nil, skill.BadInput(pointer, "%q leaves the folder that is looked at", p).WithHint("patterns are relative to path")
		}
	}
	return patterns, nil
}

// matchesAll reports whether one of the patterns matches all of a path.
func (g globs) matchesAll(rel string) bool {
	for _, p := range g {
		if ext, ok := strings.CutPrefix(p, "**/*"); ok && !strings.ContainsAny(ext, `*?[{\/`) { // by far the most frequent
			if strings.HasSuffix(rel, ext) {
				return true
			}
		} else if doublestar.MatchUnvalidated(p, rel) {
			return true
		}
	}
	return false
}

// matchesBase is whole for a pattern with a slash; one without is matched with the name alone.
func (g globs) matchesBase(rel string) bool {
	name := rel[strings.LastIndexByte(rel, '/')+1:]
	for _, p := range g {
		text := rel
		if !strings.Contains(p, "/") {
			text = name
		}
		p = strings.TrimPrefix(p, "./")
		if doublestar.MatchUnvalidated(p, text) {
			return true
		}
	}
	return false
}

// relativeTo is a path below base as seen from there.
func relativeTo(base, name string) string {
	if base == "." {
		return name
	}
	return strings.TrimPrefix(name, base+"/")
}
