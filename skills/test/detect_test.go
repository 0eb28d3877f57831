package test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// write makes a workspace of these files.
func write(t *testing.T, files map[string]string) *folder {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &folder{root, root.Dir()}
}

// Of the packages of npm the script says which runner it is, with which arguments; then the dependencies.
func TestRunnersByTheirFiles(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"go", map[string]string{"go.mod": "module a\n"}, "go"},
		{"go.work", map[string]string{"go.work": "go 1.20\nuse ./a\n"}, "go"},
		{"cargo", map[string]string{"Cargo.toml": ""}, "cargo"},
		{"script before dependencies", map[string]string{"package.json": `{"scripts":{"test":"NODE_ENV=test mocha -r x"},"devDependencies":{"jest":"1"}}`}, "mocha"},
		{"vitest", map[string]string{"package.json": `{"scripts":{"test":"vitest run"}}`}, "vitest"},
		{"jest by its file", map[string]string{"package.json": `{}`, "jest.config.js": ""}, "jest"},
		{"react", map[string]string{"package.json": `{"scripts":{"test":"react-scripts test"}}`}, "jest"},
		{"node", map[string]string{"package.json": `{"scripts":{"test":"node --test"}}`}, "node:test"},
		{"node by a test", map[string]string{"package.json": `{}`, "test/a.test.mjs": `import test from "node:test"`}, "node:test"},
		{"npm", map[string]string{"package.json": `{"scripts":{"test":"ava"}}`}, "npm"},
		{"no test specified", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`, "a.bats": ""}, "bats"},
		{"pytest by pyproject", map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest"},
		{"pytest by a function", map[string]string{"tests/test_a.py": "def test_a():\n    pass\n"}, "pytest"},
		{"unittest", map[string]string{"tests/test_a.py": "import unittest\n"}, "unittest"},
		{"maven", map[string]string{"pom.xml": ""}, "maven"},
		{"gradle", map[string]string{"build.gradle.kts": ""}, "gradle"},
		{"dotnet", map[string]string{"A.Tests.csproj": ""}, "dotnet"},
		{"minitest", map[string]string{"Rakefile": "require 'rake/testtask'\nRake::TestTask.new\n"}, "minitest"},
		{"minitest by file", map[string]string{"test/test_a.rb": ""}, "minitest"},
		{"rspec", map[string]string{"Gemfile": "gem 'rspec'\n"}, "rspec"},
		{"phpunit", map[string]string{"phpunit.xml.dist": ""}, "phpunit"},
		{"ctest", map[string]string{"CMakeLists.txt": "include(CTest)\n"}, "ctest"},
		{"bats", map[string]string{"test/a.bats": ""}, "bats"},
		{"prove", map[string]string{"t/a.t": ""}, "prove"},
		{"make", map[string]string{"Makefile": "all:\n\ntest: all\n\ttrue\n"}, "make"},
		{"make without tests", map[string]string{"Makefile": "all:\n\ntest := 1\n"}, ""},
		{"not a file", map[string]string{"go.mod/x": ""}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if found := findCandidates(write(t, tc.files)); len(found) > 0 {
				got = found[0].Framework
			}
			if got != tc.want {
				t.Errorf("detect = %q, want %q", got, tc.want)
			}
			covered[tc.want] = true
			if tc.want != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(tc.files)), manifests.SuggestsTests) {
				t.Errorf("no file of %v suggests tests before a run", tc.files)
			}
		})
	}
	for _, r := range allRunners() {
		if !covered[r.name] {
			t.Errorf("no case finds %s", r.name)
		}
	}
	if !manifests.SuggestsTests(projectFile) || manifests.SuggestsTests("README.md") || manifests.SuggestsTests("src/main.c") {
		t.Error("the project file suggests tests, README.md and src/main.c do not")
	}
}

func TestScriptsOfNpm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		script, tool string
		want         call
		ok           bool
	}{
		{"jest", "jest", call{args: []string{}}, true},
		{"jest --config 'a b.json' -i", "jest", call{args: []string{"--config", "a b.json", "-i"}}, true},
		{"cross-env NODE_ENV=test npx mocha -r x", "mocha", call{env: []string{"NODE_ENV=test"}, args: []string{"-r", "x"}}, true},
		{"node --experimental-vm-modules node_modules/jest/bin/jest.js a=b", "jest", call{node: []string{"--experimental-vm-modules"}, args: []string{"a=b"}}, true},
		{"npm run build && jest", "jest", call{}, false},
		{"jest $X", "jest", call{}, false},
		{"jest 'open", "jest", call{}, false},
		{"tsc jest", "jest", call{}, false},
	} {
		got, ok := scriptCall(tc.script, tc.tool)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(call{})); diff != "" || ok != tc.ok {
			t.Errorf("scriptCall(%q) = %v (-want +got):\n%s", tc.script, ok, diff)
		}
	}
}

func TestGoArgumentsOfAnotherRun(t *testing.T) {
	t.Parallel()
	got := goFlags([]string{"-race", "-run", "TestA", "-tags=x", "./...", "-count=3", "-timeout", "5s", "-skip=B", "-failfast", "."})
	if want := []string{"-race", "-tags=x", "-timeout", "5s"}; !slices.Equal(got, want) {
		t.Errorf("goFlags = %q, want %q", got, want)
	}
	if got := goPattern("TestA/b (c)"); got != `^TestA$/^b \(c\)$` {
		t.Errorf("goPattern = %s", got)
	}
}

func TestReportPatterns(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", 13) + "deep.txt"
	f := write(t, map[string]string{
		"r.xml": "", "a/target/surefire-reports/TEST-a.xml": "", "a/b/target/surefire-reports/TEST-b.xml": "", "a/target/surefire-reports/a.txt": "",
		"node_modules/x/target/surefire-reports/TEST-x.xml": "", deep: "",
	})
	p := &project{folder: *f, scratch: "/nowhere"}
	for pattern, want := range map[string][]string{
		"r.xml":                                  {"r.xml"},
		"*.xml":                                  {"r.xml"},
		"**/target/surefire-reports/TEST-*.xml":  {"a/b/target/surefire-reports/TEST-b.xml", "a/target/surefire-reports/TEST-a.xml"},
		"a/**":                                   {"a/b/target/surefire-reports/TEST-b.xml", "a/target/surefire-reports/TEST-a.xml", "a/target/surefire-reports/a.txt"},
		"**/b.xml":                               nil,
		"[":                                      nil,
		"d/**/d/**/d/deep.txt":                   {deep},
		"**/d/**/*/deep.txt/**":                  {deep},
		strings.Repeat("**/", 40) + "x.xml":      nil, // must not try each way in which 13 folders are distributed over 40 stars
		strings.Repeat("**/d/", 14) + "deep.txt": nil,
	} {
		var got []string
		for _, full := range (stamps{}).listChanged(p.findReports([]string{pattern})) {
			got = append(got, p.relativePath(full))
		}
		if !slices.Equal(got, want) {
			t.Errorf("findReports(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// A report that is there before the run counts once it was written again, even with its old time and size.
func TestFreshReports(t *testing.T) {
	t.Parallel()
	f := write(t, map[string]string{"old.xml": "a", "written.xml": "a", "replaced.xml": "a"})
	p := &project{folder: *f, scratch: "/nowhere"}
	before := p.findReports([]string{"*.xml"})
	if err := os.WriteFile(f.pathOf("written.xml"), []byte("bb"), 0o644); err != nil {
		t.Fatal(err)
	}
	replaced := f.pathOf("replaced.xml")
	if err := os.WriteFile(replaced+".new", []byte("b"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := before[replaced].ModTime()
	if err := os.Chtimes(replaced+".new", old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(replaced+".new", replaced); err != nil {
		t.Fatal(err)
	}
	got := before.listChanged(p.findReports([]string{"*.xml"}))
	if want := []string{replaced, f.pathOf("written.xml")}; !slices.Equal(got, want) {
		t.Errorf("fresh = %q, want %q", got, want)
	}
}
