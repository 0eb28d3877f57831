package test

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
)

// The exit code is never believed when it says success, and always when it says failure.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	stream := func(s *results.Set) results.Stream { return results.NewTAP(s, "") }
	none := []results.Status{}
	for _, tc := range []struct {
		name       string
		cases      []results.Status
		build      bool
		plan       plan
		end        outcome
		none       bool
		allowFlaky bool
		recovered  int
		want       Status
	}{
		{"green", []results.Status{results.Passed}, false, plan{stream: stream}, outcome{}, false, false, 0, StatusPassed},
		{"red", []results.Status{results.Passed, results.Failed}, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, false, 0, StatusFailed},
		{"red with exit 0", []results.Status{results.Failed}, false, plan{stream: stream}, outcome{}, false, false, 0, StatusFailed},
		{"green with exit 1", []results.Status{results.Passed}, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, false, 0, StatusError},
		{"nothing", none, false, plan{stream: stream}, outcome{}, false, false, 0, StatusNoTests},
		{"nothing, and the runner fails", none, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 5}}, true, false, 0, StatusNoTests},
		{"nothing with exit 1", none, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, false, 0, StatusError},
		{"all skipped", []results.Status{results.Skipped}, false, plan{stream: stream}, outcome{}, false, false, 0, StatusPassed},
		{"does not build", none, true, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, false, 0, StatusFailed},
		{"no report", none, false, plan{format: results.FormatJUnit}, outcome{problem: "no report"}, false, false, 0, StatusError},
		{"a broken report of green tests", []results.Status{results.Passed}, false, plan{format: results.FormatJUnit}, outcome{problem: "breaks off"}, false, false, 0, StatusError},
		{"flaky, passed in a rerun", []results.Status{results.Flaky}, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, false, 1, StatusFailed},
		{"flaky, allowed", []results.Status{results.Flaky}, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, true, 1, StatusPassed},
		{"flaky and red", []results.Status{results.Flaky, results.Failed}, false, plan{stream: stream}, outcome{exit: proc.Exit{Code: 1}}, false, true, 1, StatusFailed},
		{"flaky by the runner's own retries", []results.Status{results.Flaky}, false, plan{stream: stream}, outcome{}, false, false, 0, StatusPassed},
		{"a signal", []results.Status{results.Errored}, false, plan{}, outcome{exit: proc.Exit{Code: -1, Signal: 9}}, false, false, 0, StatusError},
		{"could not be run", []results.Status{results.Errored}, false, plan{}, outcome{exit: proc.Exit{Code: 127}}, false, false, 0, StatusError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s results.Set
			for _, status := range tc.cases {
				s.Add(results.Case{Name: "a", Status: status})
			}
			if tc.build {
				s.AddBuild(results.BuildError{Message: "no"})
			}
			if got := judgeRun(&s, &tc.plan, tc.end, tc.none, tc.allowFlaky, tc.recovered); got != tc.want {
				t.Errorf("judge = %s, want %s", got, tc.want)
			}
		})
	}
}

// Progress says how many tests ended, as far as the runner's output tells; else how much there was of it.
func TestProgressFollowsTheOutput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan   plan
		output string
		want   string
	}{
		"TAP":      {plan{stream: func(s *results.Set) results.Stream { return results.NewTAP(s, "") }}, "1..3\nok 1\nnot ok 2\nok 3\nok 4\n", "2 tests passed, 1 failed"},
		"go":       {plan{stream: func(s *results.Set) results.Stream { return results.NewGoTest(s, "", nil) }}, `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n", "1 tests passed, 0 failed"},
		"marks":    {plan{mark: func(line string) (bool, bool) { return line == "+", line == "-" }}, "+\n+\n-\n", "2 tests passed, 1 failed"},
		"nothing":  {plan{}, "a\nb\n", "lines of output so far: 2"},
		"compiler": {plan{stream: func(s *results.Set) results.Stream { return results.NewCompiler(s) }}, "a\n", "lines of output so far: 1"},
	} {
		w := newWatch(&tc.plan, &results.Set{})
		for line := range strings.Lines(tc.output) {
			w.handleLine(strings.TrimSuffix(line, "\n"))
		}
		if got := w.lastText(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A file that pytest cannot collect is told by its cause and run again by its name.
func TestPytestNamesWhatItCannotCollect(t *testing.T) {
	t.Parallel()
	c := results.Case{
		Name: "tests.test_a", Suite: "pytest", File: "tests/test_a.py", Line: 1, Status: results.Errored, Message: "collection failure",
		Detail: "tests/test_a.py:1: in <module>\n    import nowhere\nE   ModuleNotFoundError: No module named 'nowhere'",
	}
	pytestID(&c)
	if c.ID != "tests/test_a.py" || !c.Package || c.Message != "ModuleNotFoundError: No module named 'nowhere'" {
		t.Errorf("%+v", c)
	}
}
