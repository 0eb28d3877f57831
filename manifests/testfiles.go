package manifests

import (
	"path"
	"slices"
	"strings"
)

// testFiles are patterns of the names of files by which test.run recognises a project; a test of skills/test compares them.
var testFiles = []string{
	"test.json", "go.mod", "go.work", "Cargo.toml", "package.json", "pom.xml", "build.gradle*", "settings.gradle*", "CTestTestfile.cmake", "CMakeLists.txt",
	"GNUmakefile", "[Mm]akefile", "[Rr]akefile*", "Gemfile", ".rspec", "*_spec.rb", "phpunit*", "*pytest.ini", "conftest.py", "pyproject.toml", "tox.ini", "setup.cfg",
	"*test*.py", "*.t", "*.bats", "*.sln", "*.slnx", "*.*proj", "*.test.*", "*-test.*", "*_test.*", "test.*", "test-*.*", "vitest.*", "jest.*", ".mocharc*",
}

// SuggestsTests reports whether test.run may recognise a project by a file with this name, relative to the repository. A file
// that it reports may still tell nothing.
func SuggestsTests(name string) bool {
	return slices.ContainsFunc(testFiles, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	}) || strings.HasPrefix(name, "test/") && path.Ext(name) != ""
}
