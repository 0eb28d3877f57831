package skills

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// report is as much of a test report as these tests look at.
type testReport struct {
	Status      string         `json:"status"`
	Framework   string         `json:"framework"`
	Command     []string       `json:"command"`
	Cwd         string         `json:"cwd"`
	Root        string         `json:"root"`
	Counts      map[string]int `json:"counts"`
	Failures    []testFailure  `json:"failures"`
	BuildErrors []struct {
		File string `json:"file"`
		Line int    `json:"line"`
	} `json:"build_errors"`
	Reports     map[string]string `json:"reports"`
	Fingerprint string            `json:"fingerprint"`
	Candidates  []struct {
		Framework string `json:"framework"`
		Cwd       string `json:"cwd"`
		Evidence  string `json:"evidence"`
	} `json:"candidates"`
}

type testFailure struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Excerpt string `json:"excerpt"`
	Flaky   bool   `json:"flaky"`
	Rerun   struct {
		Command []string `json:"command"`
	} `json:"rerun"`
}

// testRun calls test.run and decodes its report, be it data or the details of a fault.
func (s *sprite) testRun(input string) (testReport, outcome) {
	s.t.Helper()
	o := s.call("test.run", input)
	raw := o.result.Data
	if o.result.Error != nil {
		raw = o.result.Error.Details
	}
	var r testReport
	if err := json.Unmarshal(raw, &r); err != nil {
		s.t.Fatalf("test.run %s: no report: %s", input, o.stdout)
	}
	for name, n := range r.Counts {
		if n == 0 {
			delete(r.Counts, name)
		}
	}
	return r, o
}

// sample copies a project of skills/test/testdata/samples to repo.
func (s *sprite) sample(name string) {
	s.t.Helper()
	if err := os.CopyFS(filepath.Join(s.dir, "repo"), os.DirFS(filepath.Join("test/testdata/samples", name))); err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "repo/.git"), 0o755); err != nil { // a repository, as far as paths are concerned
		s.t.Fatal(err)
	}
}

// npm puts packages of npm where the project looks for them.
func (s *sprite) npm(dir, tool string) {
	s.t.Helper()
	cache := os.Getenv("LATTICE_NPM_CACHE")
	if cache == "" {
		cache = "/var/tmp/lattice-ci-npm"
	}
	modules := filepath.Join(cache, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".bin", tool)); err != nil {
		s.t.Skipf("no %s: set LATTICE_NPM_CACHE to a folder where npm installed it", tool)
	}
	if err := os.Symlink(modules, filepath.Join(s.dir, dir, "node_modules")); err != nil {
		s.t.Fatal(err)
	}
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s on this machine", name)
		}
	}
}

// rustHome tells rustup's cargo where it lives: the sprite has a home of its own.
func (s *sprite) rustHome() {
	home, err := os.UserHomeDir()
	if err != nil {
		s.t.Skip(err)
	}
	for name, dir := range map[string]string{"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"} {
		value := os.Getenv(name)
		if value == "" {
			value = filepath.Join(home, dir)
		}
		s.env.Child = append(s.env.Child, name+"="+value)
	}
}

// Each runner that is here is found by its project's files, runs, and is reported in the same form: what failed, where,
// of which kind, and a command that runs just that again.
func TestRunnersForReal(t *testing.T) {
	type failure struct {
		ID, File string
		Line     int
		Kind     string
	}
	for _, tc := range []struct {
		sample, framework string
		programs          []string
		npm               string
		args              string // JSON
		prepare           func(*sprite)
		counts            map[string]int
		failures          []failure
	}{
		{sample: "go", framework: "go", counts: map[string]int{"total": 7, "passed": 3, "failed": 2, "skipped": 1, "not_run": 1}, failures: []failure{
			{"example.com/sample/sub:TestB", "sub/sub_test.go", 9, "panic"},
			{"example.com/sample:TestTable/bad_one", "sample_test.go", 12, "assertion"},
		}},
		{sample: "cargo", framework: "cargo", programs: []string{"cargo", "rustc"}, prepare: (*sprite).rustHome,
			args:   `["--","--test-threads=1"]`, // how many tests another thread ends before the process dies is chance
			counts: map[string]int{"total": 9, "passed": 3, "failed": 3, "skipped": 1, "errored": 1, "not_run": 2}, failures: []failure{
				{"dies:tests/dies.rs", "", 0, "panic"},
				{"sample:doc::src/lib.rs - add (line 3)", "src/lib.rs", 3, "assertion"},
				{"sample:src/lib.rs::tests::adds_wrongly", "src/lib.rs", 22, "assertion"},
				{"sample:src/lib.rs::tests::overflows", "src/lib.rs", 29, "panic"},
			}},
		{sample: "pytest", framework: "pytest", programs: []string{"pytest"}, counts: map[string]int{"total": 7, "passed": 2, "failed": 2, "skipped": 2, "errored": 1}, failures: []failure{
			{"tests/test_calc.py::TestCalc::test_raises", "tests/test_calc.py", 19, "assertion"},
			{"tests/test_calc.py::test_adds_table[2-2]", "tests/test_calc.py", 13, "assertion"},
			{"tests/test_calc.py::test_setup", "tests/test_calc.py", 34, "setup"},
		}},
		{sample: "unittest", framework: "unittest", programs: []string{"python3"}, counts: map[string]int{"total": 8, "passed": 1, "failed": 4, "skipped": 2, "errored": 2}, failures: []failure{
			{"test_calc.BrokenTest", "test_calc.py", 35, "setup"},
			{"test_calc.CalcTest.test_adds_wrongly", "test_calc.py", 12, "assertion"},
			{"test_calc.CalcTest.test_raises", "test_calc.py", 16, "panic"},
			{"test_calc.CalcTest.test_table", "test_calc.py", 29, "assertion"},
			{"test_calc.CalcTest.test_table", "test_calc.py", 29, "assertion"},
			{"test_import", "test_import.py", 1, "setup"},
		}},
		{sample: "node", framework: "node:test", programs: []string{"node"}, counts: map[string]int{"total": 8, "passed": 2, "failed": 4, "skipped": 2}, failures: []failure{
			{"adds # wrongly", "calc.test.js", 8, "assertion"},
			{"crash.test.js", "crash.test.js", 1, "panic"},
			{"division > throws", "calc.test.js", 15, "assertion"},
			{"parent > child", "calc.test.js", 22, "assertion"},
		}},
		{sample: "jest", framework: "jest", programs: []string{"node"}, npm: "jest", counts: map[string]int{"total": 5, "passed": 1, "failed": 2, "skipped": 2, "errored": 1}, failures: []failure{
			{"broken.test.js", "broken.test.js", 0, "build"},
			{"calc.test.js > table adds (wrongly)", "calc.test.js", 8, "assertion"},
			{"calc.test.js > throws", "calc.test.js", 17, "assertion"},
		}},
		{sample: "vitest", framework: "vitest", programs: []string{"node"}, npm: "vitest", counts: map[string]int{"total": 5, "passed": 1, "failed": 2, "skipped": 2, "errored": 1}, failures: []failure{
			{"broken.test.ts", "broken.test.ts", 1, "build"},
			{"calc.test.ts > table adds (wrongly)", "calc.test.ts", 9, "assertion"},
			{"calc.test.ts > throws", "calc.test.ts", 18, "assertion"},
		}},
		{sample: "mocha", framework: "mocha", programs: []string{"node"}, npm: "mocha", counts: map[string]int{"total": 5, "passed": 1, "failed": 2, "skipped": 1, "errored": 1}, failures: []failure{
			{"test/calc.js > calc adds (wrongly)", "test/calc.js", 7, "assertion"},
			{"test/calc.js > calc times out", "test/calc.js", 0, "timeout"},
			{`test/calc.js > calc with a hook "before all" hook for "never runs"`, "test/calc.js", 18, "setup"},
		}},
		{sample: "bats", framework: "bats", programs: []string{"bats"}, counts: map[string]int{"total": 4, "passed": 2, "failed": 1, "skipped": 1}, failures: []failure{
			{"adds (wrongly)", "sample.bats", 7, "assertion"},
		}},
		{sample: "prove", framework: "prove", programs: []string{"prove"}, counts: map[string]int{"total": 10, "passed": 3, "failed": 2, "skipped": 3, "errored": 1, "not_run": 2}, failures: []failure{
			{"t/calc.t > adds wrongly", "t/calc.t", 6, "assertion"},
			{"t/calc.t > table > bad", "t/calc.t", 12, "assertion"},
			{"t/dies.t", "", 0, "panic"},
		}},
		{sample: "ctest", framework: "ctest", programs: []string{"cmake", "ctest"}, counts: map[string]int{"total": 5, "passed": 1, "failed": 2, "skipped": 1, "errored": 1}, failures: []failure{
			{"adds_wrongly", "calc.c", 12, "assertion"},
			{"missing", "", 0, "setup"},
			{"slow", "", 0, "timeout"},
		}},
		{sample: "rspec", framework: "rspec", programs: []string{"rspec"}, counts: map[string]int{"total": 5, "passed": 1, "failed": 2, "skipped": 2}, failures: []failure{
			{"spec/calc_spec.rb[1:2:1]", "spec/calc_spec.rb", 8, "assertion"},
			{"spec/calc_spec.rb[1:2:2]", "spec/calc_spec.rb", 12, "assertion"},
		}},
		{sample: "phpunit", framework: "phpunit", programs: []string{"phpunit"}, counts: map[string]int{"total": 6, "passed": 2, "failed": 3, "skipped": 1}, failures: []failure{
			{"CalcTest::testAddsWrongly", "tests/CalcTest.php", 13, "assertion"},
			{"CalcTest::testRaises", "tests/CalcTest.php", 29, "panic"},
			{`CalcTest::testTable with data set "bad"`, "tests/CalcTest.php", 19, "assertion"},
		}},
		{sample: "make", framework: "make", programs: []string{"make"}, counts: map[string]int{"total": 1, "failed": 1}, failures: []failure{
			{"command", "", 0, "assertion"},
		}},
	} {
		t.Run(tc.sample, func(t *testing.T) {
			needs(t, tc.programs...)
			s := newSprite(t)
			s.sample(tc.sample)
			if tc.npm != "" {
				s.npm("repo", tc.npm)
			}
			if tc.prepare != nil {
				tc.prepare(s)
			}
			args := tc.args
			if args == "" {
				args = "[]"
			}
			r, o := s.testRun(`{"reports":["junit","ctrf"],"args":` + args + `}`)
			if o.exit != 1 || o.result.Error.Code != "tests_failed" || r.Status != "failed" || r.Framework != tc.framework || r.Cwd != "repo" || r.Root != "repo" {
				t.Errorf("exit %d, %s: %+v", o.exit, o.result.Error.Code, r)
			}
			if diff := cmp.Diff(tc.counts, r.Counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			var got []failure
			for _, f := range r.Failures {
				got = append(got, failure{f.ID, f.File, f.Line, f.Kind})
				if f.Message == "" || len(f.Rerun.Command) == 0 {
					t.Errorf("no message or no command to run again: %+v", f)
				}
				if strings.Contains(f.Message+f.Excerpt+f.ID, s.dir) && tc.framework != "cargo" {
					t.Errorf("the machine's path shows in %+v", f)
				}
			}
			if diff := cmp.Diff(tc.failures, got); diff != "" {
				t.Errorf("failures (-want +got):\n%s\n%s", diff, s.read(strings.Replace(r.Reports["junit"], ".junit.xml", ".test.log", 1)))
			}
			for _, e := range o.events {
				if e.Type == protocol.TypeCompleted {
					t.Error("a word of a test became an event")
				}
			}
			if s.read(r.Reports["junit"]) == "" || s.read(r.Reports["ctrf"]) == "" {
				t.Error("the reports are empty")
			}
			if len(r.Candidates) == 0 || r.Candidates[0].Framework != tc.framework {
				t.Errorf("candidates = %+v", r.Candidates)
			}
			if !slices.Contains([]string{"go", "pytest", "unittest", "node", "bats"}, tc.sample) {
				return // the others take their time
			}
			if again, _ := s.testRun(`{}`); again.Fingerprint != r.Fingerprint {
				t.Errorf("the second run has another fingerprint: %+v, then %+v", r.Failures, again.Failures)
			}
		})
	}
}

// A test that fails once and then passes is flaky; only what failed is run again; the run passes where that is allowed.
func TestFlakyTests(t *testing.T) {
	for _, tc := range []struct {
		name     string
		programs []string
		npm      string
		prepare  func(*sprite)
		files    map[string]string
		id       string
	}{
		{name: "go", id: "example.com/m:TestFlaky/sub", files: map[string]string{"go.mod": "module example.com/m\n\ngo 1.20\n", "m_test.go": `package m

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) {
	if _, err := os.Stat("second"); err == nil {
		t.Error("run again")
	}
}

func TestFlaky(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if _, err := os.Stat("second"); err != nil {
			os.WriteFile("second", nil, 0o644)
			t.Error("the first time")
		}
	})
}
`}},
		{name: "pytest", programs: []string{"pytest"}, id: "test_m.py::TestM::test_flaky[a]", files: map[string]string{"test_m.py": `import os
import pytest

def test_good():
    assert not os.path.exists("second")

class TestM:
    @pytest.mark.parametrize("x", ["a"])
    def test_flaky(self, x):
        if not os.path.exists("second"):
            open("second", "w").close()
            assert False, "the first time"
`}},
		{name: "unittest", programs: []string{"python3"}, id: "test_m.M.test_flaky", files: map[string]string{"tests/test_m.py": `import os
import unittest

class M(unittest.TestCase):
    def test_a(self):
        self.assertFalse(os.path.exists("second"))

    def test_flaky(self):
        if not os.path.exists("second"):
            open("second", "w").close()
            self.fail("the first time")
`}},
		{name: "node:test", programs: []string{"node"}, id: "suite > is flaky (1)", files: map[string]string{"package.json": `{"scripts":{"test":"node --test"}}`, "m.test.js": `
const { describe, it } = require("node:test");
const fs = require("node:fs");
describe("suite", () => {
  it("is good", () => { if (fs.existsSync("second")) throw new Error("run again"); });
  it("is flaky (1)", () => {
    if (fs.existsSync("second")) return;
    fs.writeFileSync("second", "");
    throw new Error("the first time");
  });
});
`}},
		{name: "jest", programs: []string{"node"}, npm: "jest", id: "m.test.js > suite is flaky (1)", files: map[string]string{"package.json": `{"scripts":{"test":"jest"}}`, "m.test.js": `
const fs = require("node:fs");
describe("suite", () => {
  it("is good", () => { if (fs.existsSync("second")) throw new Error("run again"); });
  it("is flaky (1)", () => {
    if (fs.existsSync("second")) return;
    fs.writeFileSync("second", "");
    throw new Error("the first time");
  });
});
`}},
		{name: "vitest", programs: []string{"node"}, npm: "vitest", id: "m.test.js > suite is flaky (1)", files: map[string]string{"package.json": `{"devDependencies":{"vitest":"3"}}`, "m.test.js": `
import fs from "node:fs";
import { describe, it } from "vitest";
describe("suite", () => {
  it("is good", () => { if (fs.existsSync("second")) throw new Error("run again"); });
  it("is flaky (1)", () => {
    if (fs.existsSync("second")) return;
    fs.writeFileSync("second", "");
    throw new Error("the first time");
  });
});
`}},
		{name: "mocha", programs: []string{"node"}, npm: "mocha", id: "test/m.js > suite is flaky (1)", files: map[string]string{"package.json": `{"devDependencies":{"mocha":"11"}}`, "test/m.js": `
const fs = require("node:fs");
describe("suite", () => {
  it("is good", () => { if (fs.existsSync("second")) throw new Error("run again"); });
  it("is flaky (1)", () => {
    if (fs.existsSync("second")) return;
    fs.writeFileSync("second", "");
    throw new Error("the first time");
  });
});
`}},
		{name: "bats", programs: []string{"bats"}, id: "is flaky (1)", files: map[string]string{"m.bats": `@test "is good" {
  [ ! -e "$BATS_TEST_DIRNAME/second" ]
}

@test "is flaky (1)" {
  [ -e "$BATS_TEST_DIRNAME/second" ] || { touch "$BATS_TEST_DIRNAME/second"; false; }
}
`}},
		{name: "cargo", programs: []string{"cargo", "rustc"}, prepare: (*sprite).rustHome, id: "m:src/lib.rs::tests::z_flaky",
			files: map[string]string{"Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": `#[cfg(test)]
mod tests {
    #[test]
    fn z_flaky() {
        if !std::path::Path::new("second").exists() {
            std::fs::write("second", "").unwrap();
            panic!("the first time");
        }
    }
}
`}},
		{name: "rspec", programs: []string{"rspec"}, id: "spec/m_spec.rb[1:2]", files: map[string]string{"spec/m_spec.rb": `RSpec.describe "m" do
  it("is good") { expect(File.exist?("second")).to be(false) }
  it "is flaky" do
    unless File.exist?("second")
      File.write("second", "")
      raise "the first time"
    end
  end
end
`}},
		{name: "phpunit", programs: []string{"phpunit"}, id: `MTest::testFlaky with data set "a/b"`, files: map[string]string{"phpunit.xml": `<phpunit><testsuites><testsuite name="m"><directory>tests</directory></testsuite></testsuites></phpunit>`, "tests/MTest.php": `<?php
final class MTest extends PHPUnit\Framework\TestCase
{
    public function testGood(): void { $this->assertFileDoesNotExist('second'); }
    /** @dataProvider table */
    public function testFlaky(string $x): void
    {
        if (!file_exists('second')) { touch('second'); $this->fail('the first time'); }
        $this->assertSame('a', $x);
    }
    public function table(): array { return ['a/b' => ['a']]; }
}
`}},
		{name: "ctest", programs: []string{"cmake", "ctest"}, id: "flaky", files: map[string]string{"CMakeLists.txt": `cmake_minimum_required(VERSION 3.20)
project(m NONE)
enable_testing()
add_test(NAME good COMMAND sh -c "! test -e ${CMAKE_SOURCE_DIR}/second")
add_test(NAME flaky COMMAND sh -c "test -e ${CMAKE_SOURCE_DIR}/second || { touch ${CMAKE_SOURCE_DIR}/second; exit 1; }")
`}},
		{name: "prove", programs: []string{"prove"}, id: "t/m.t > is flaky", files: map[string]string{"t/m.t": `use Test::More tests => 1;
my $second = -e 'second';
unless ($second) { open my $f, '>', 'second'; }
ok($second, 'is flaky');
`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			needs(t, tc.programs...)
			s := newSprite(t)
			for name, content := range tc.files {
				s.write("repo/"+name, content)
			}
			if tc.npm != "" {
				s.npm("repo", tc.npm)
			}
			if tc.prepare != nil {
				tc.prepare(s)
			}
			allowed := func() {
				r, o := s.testRun(`{"rerun_failed":1,"allow_flaky":true}`)
				if o.exit != 0 || r.Status != "passed" || r.Counts["flaky"] != 1 || len(r.Failures) != 1 || r.Failures[0].ID != tc.id || !r.Failures[0].Flaky {
					t.Errorf("with allow_flaky: exit %d, %+v\n%s", o.exit, r, o.stdout)
				}
			}
			if allowed(); tc.prepare != nil || tc.npm != "" {
				return // these take their time
			}
			if err := os.Remove(filepath.Join(s.dir, "repo/second")); err != nil {
				t.Fatal(err)
			}
			r, o := s.testRun(`{"rerun_failed":2}`)
			if o.exit != 1 || o.result.Error.Code != "tests_failed" || r.Framework != tc.name || r.Counts["flaky"] != 1 || r.Counts["failed"] != 0 {
				t.Errorf("exit %d, %+v\n%s", o.exit, r, o.stdout)
			}
			if len(r.Failures) != 1 || r.Failures[0].ID != tc.id || !r.Failures[0].Flaky {
				t.Errorf("failures = %+v, want %s to be flaky", r.Failures, tc.id)
			}
		})
	}
}
