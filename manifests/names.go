package manifests

import (
	"slices"
	"strings"
)

// The names are judged by loops and not by patterns: every skill reads its manifest before it does anything else, and
// compiling three patterns takes longer than that.

// ValidName reports whether a skill may have this name.
func ValidName(name string) bool { return isSkillName(name) }

// ValidPermission reports whether name has the form of a permission, such as fs:read; Permissions lists those we know.
func ValidPermission(name string) bool { return isPermissionName(name) }

// reserved are the words that mean something else where skills are found by name: the entries of /skills that are not
// skills, the commands of spritekit, and the step type "tool".
var reserved = []string{
	"agents", "check", "checkpoint", "emit", "help", "install", "manifests", "mcp", "resume", "scrub", "serve", "session", "skills",
	"spritekit", "tool", "version",
}

// isSkillName accepts lower-case words joined by dots, such as git.clone, and a single word that is not reserved.
func isSkillName(name string) bool {
	first, rest, dotted := strings.Cut(name, ".")
	if !isLowerWord(first) {
		return false
	}
	if !dotted {
		return !slices.Contains(reserved, name)
	}
	for word := range strings.SplitSeq(rest, ".") {
		if word == "" || !consistsOf(word, isLower, isDigit, isUnderscore) {
			return false
		}
	}
	return true
}

// isFieldName accepts letters, digits and underscores, no digit first.
func isFieldName(name string) bool {
	return name != "" && !isDigit(name[0]) && consistsOf(name, isLower, isUpper, isDigit, isUnderscore)
}

// isPermissionName accepts a word, or two that a colon joins, such as fs:read.
func isPermissionName(name string) bool {
	area, verb, two := strings.Cut(name, ":")
	return isLowerWord(area) && (!two || isLowerWord(verb))
}

func isLowerWord(s string) bool {
	return s != "" && isLower(s[0]) && consistsOf(s, isLower, isDigit, isUnderscore)
}

// consistsOf reports whether every byte of s is of one of the kinds.
func consistsOf(s string, kinds ...func(byte) bool) bool {
	for i := range len(s) {
		ok := false
		for _, is := range kinds {
			ok = ok || is(s[i])
		}
		if !ok {
			return false
		}
	}
	return true
}

func isLower(c byte) bool      { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool      { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool      { return '0' <= c && c <= '9' }
func isUnderscore(c byte) bool { return c == '_' }
