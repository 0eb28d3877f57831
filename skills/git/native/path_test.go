package native

import "testing"

// TestVerifyPath holds the names that git refuses, and their harmless neighbours.
func TestVerifyPath(t *testing.T) {
	for _, path := range []string{
		"", ".", "..", "a/..", "./a", "a//b", "/a", "a/", ".git", ".GIT", ".Git/config", "a/.git", "a/.git/b", "git~1", "GIT~1/x", ".git ", ".git.", ".git . .",
		".git::$INDEX_ALLOCATION", ".git:x", ".g\u200cit", "\ufeff.git", ".gi\u206at", `.git\config`, `a\.git\x`, `a\git~1`, "a\x00b",
	} {
		if verifyPath(path, false) == nil {
			t.Errorf("verifyPath(%q) lets it pass", path)
		}
	}
	for _, path := range []string{
		"a", ".gita", "git", "git~2", ".gi", "a.git", ".gitignore", ".gitmodules", "...", ".a", "a b", `a\b`, "-x", "ü", "\xff", "a~1", ".github/workflows", "gi~1",
	} {
		if err := verifyPath(path, false); err != nil {
			t.Errorf("verifyPath(%q) = %v", path, err)
		}
	}
	for _, path := range []string{".gitmodules", ".GITMODULES", ".gitmodules ", "gitmod~1", "GITMOD~4", "gi7eba~1", "GI7EBA~9", ".git\u200dmodules", ".gitmodules:$DATA"} {
		if verifyPath(path, true) == nil {
			t.Errorf("verifyPath(%q) lets a symlink pass", path)
		}
	}
	for _, path := range []string{"gitmod~5", "gitmodules", ".gitmodule", "gi7eba", "gi7ebb~1"} {
		if err := verifyPath(path, true); err != nil {
			t.Errorf("verifyPath(%q) of a symlink = %v", path, err)
		}
	}
}
