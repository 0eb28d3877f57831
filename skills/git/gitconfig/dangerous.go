package gitconfig

import (
	"slices"
	"strings"
)

// Executable are the keys of a repository's configuration that run programs or redirect and that no override on git's
// command line reaches. * stands for the sub-section, which may hold dots.
func Executable() []string {
	return []string{
		"filter.*.clean", "filter.*.smudge", "filter.*.process", "diff.*.command", "diff.*.textconv", "diff.external",
		"merge.*.driver", "include.path", "includeif.*.path", "core.gitproxy", "core.alternaterefscommand",
		"remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs",
		"hook.*.command", // runs although core.hooksPath names no folder
	}
}

// Redirecting are the keys that matter once a credential or a commit leaves the sprite.
func Redirecting() []string {
	return []string{
		"url.*.insteadof", "url.*.pushinsteadof", "remote.*.pushurl", "remote.*.proxy", "http.*", "http.*.*", "credential.*.*",
	}
}

// Dangerous returns the keys that match a pattern, sorted, each once.
func (c Config) Dangerous(patterns []string) []string {
	var found []string
	for _, e := range c {
		if slices.ContainsFunc(patterns, func(p string) bool { return matchKey(p, e.Key) }) {
			found = append(found, e.Key)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func matchKey(pattern, key string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return key == pattern
	}
	if !strings.HasPrefix(key, before) {
		return false
	}
	rest := key[len(before):]
	if after == "" {
		return true
	}
	if strings.HasSuffix(after, "*") { // section.*.*
		return strings.Contains(rest, ".")
	}
	return strings.HasSuffix(rest, after) // git accepts an empty subsection
}
