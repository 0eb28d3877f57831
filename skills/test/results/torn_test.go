package results_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/test/results"
)

// verdicts are the cases of a set, a line each.
func verdicts(s *results.Set) []string {
	var all []string
	for _, c := range s.Cases {
		all = append(all, string(c.Status)+" "+c.ID)
	}
	return all
}

// feed gives the lines of a text to a reader and ends it.
func feed(stream results.Stream, text string) {
	for line := range strings.Lines(text) {
		stream.Line(strings.TrimSuffix(line, "\n"))
	}
	stream.Done()
}

// TestLastLineWithoutEnd checks that the last line counts if it has no newline and fills the buffer of the reader exactly.
func TestLastLineWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, size := range []int{12, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10} {
		const point = "not ok 1 - "
		s, err := parse(results.FormatTAP, []byte(point+strings.Repeat("x", size-len(point))))
		if err != nil || s.Counts.Failed != 1 {
			t.Errorf("a report of a line of %d bytes: %v, %+v, want a failure", size, err, s.Counts)
		}
	}
}

// TestFailuresWithoutSection checks that a failed test is in the results if the process died before it wrote the sections.
func TestFailuresWithoutSection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(*results.Set) results.Stream
		text string
		want []string
	}{
		{
			"minitest dies", func(s *results.Set) results.Stream { return results.NewMinitest(s) },
			"A#test_a = 0.00 s = .\nA#test_b = 0.01 s = F\nA#test_c = 0.01 s = E\nA#test_d = 0.00 s = S\n",
			[]string{"passed A#test_a", "failed A#test_b", "failed A#test_c", "skipped A#test_d"},
		},
		{
			"minitest dies in the sections", func(s *results.Set) results.Stream { return results.NewMinitest(s) },
			"A#test_a = 0.00 s = F\nA#test_b = 0.01 s = F\n\n  1) Failure:\nA#test_a [t.rb:3]:\nno\n",
			[]string{"failed A#test_a", "failed A#test_b"},
		},
		{
			"unittest dies", func(s *results.Set) results.Stream { return results.NewUnittest(s) },
			"test_a (m.A.test_a) ... ok\ntest_b (m.A.test_b)\nIn words. ... FAIL\ntest_c (m.A) ... ERROR\n",
			[]string{"failed m.A.test_b", "failed m.A.test_c", "passed m.A.test_a"},
		},
		{
			"unittest ends", func(s *results.Set) results.Stream { return results.NewUnittest(s) },
			"test_a (m.A.test_a) ... a word ... FAIL\nok\n" + strings.Repeat("-", 70) + "\nRan 1 test in 0.1s\n\nOK\n",
			[]string{"passed m.A.test_a"},
		},
		{
			"cargo dies", func(s *results.Set) results.Stream { return results.NewLibtest(s) },
			"     Running unittests src/lib.rs (target/debug/deps/calc-0123456789abcdef)\n\nrunning 3 tests\ntest a ... ok\ntest b ... FAILED\n",
			[]string{"passed calc:src/lib.rs::a", "failed calc:src/lib.rs::b", "not_run calc:src/lib.rs > test 3 of 3"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var s results.Set
			feed(tc.make(&s), tc.text)
			check(t, &s)
			if diff := cmp.Diff(tc.want, verdicts(&s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMinitestSections checks the kind and place of a failure: that of the assertion, else that of the first frame.
func TestMinitestSections(t *testing.T) {
	t.Parallel()
	var s results.Set
	feed(results.NewMinitest(&s), `Run options: -v --seed 1

# Running:

A#test_ok = 0.00 s = .
A#test_no = 0.01 s = F
A::B#test_raises = 0.01 s = E
A#test_later = 0.00 s = S

Finished in 0.001s, 9 runs/s.

  1) Failure:
A#test_no [test/a_test.rb:12]:
Expected: 1
  Actual: 2

  2) Error:
A::B#test_raises:
KeyError: key not found: "x"
    lib/a.rb:7:in `+"`fetch'"+`
    test/a_test.rb:20:in 'A::B#test_raises'

  3) Skipped:
A#test_later [test/a_test.rb:30]:
later

4 runs, 3 assertions, 1 failures, 1 errors, 1 skips
    lib/after.rb:1:in 'at_exit'
`)
	check(t, &s)
	want := []results.Case{
		{ID: "A#test_no", Name: "test_no", Suite: "A", File: "test/a_test.rb", Line: 12, Status: results.Failed, Kind: results.Assertion, Message: "Expected: 1", Detail: "Expected: 1\n  Actual: 2"},
		{
			ID: "A::B#test_raises", Name: "test_raises", Suite: "A::B", File: "lib/a.rb", Line: 7, Status: results.Failed, Kind: results.Panic, Message: `KeyError: key not found: "x"`,
			Detail: "KeyError: key not found: \"x\"\n    lib/a.rb:7:in `fetch'\n    test/a_test.rb:20:in 'A::B#test_raises'",
		},
	}
	if diff := cmp.Diff(want, s.Failing); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
	if want := (results.Counts{Total: 4, Passed: 1, Failed: 2, Skipped: 1}); s.Counts != want {
		t.Errorf("counts = %+v, want %+v", s.Counts, want)
	}
}

// TestTAPBlocksHideNothing checks that neither output that looks like the start of a YAML block nor a block without an end hides a failure.
func TestTAPBlocksHideNothing(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{
		"a rule of dashes":    "ok 1 - a\n---\nnot ok 2 - b\n1..2\n",
		"in a sub-test":       "    ok 1 - a\n    ---\n    not ok 2 - b\n    1..2\nok 1 - s\n",
		"a block without end": "ok 1 - a\n  ---\n  message: torn\nnot ok 2 - b\n1..2\n",
		"words to the left":   "ok 1 - a\n  ---\n  stack: |\n at x\nokay\n  ...\nnot ok 2 - b\n1..2\n",
		"a test in a block":   "ok 1 - a\n  ---\n  stack: |\n    not ok 7 - c\n    1..9\n  ...\nnot ok 2 - b\n1..2\n",
		"an end without one":  "ok 1 - a\n  ...\nnot ok 2 - b\n1..2\n",
	} {
		s, err := parse(results.FormatTAP, []byte(report))
		if err != nil || s.Counts.Failed != 1 || s.Counts.Passed != 1 {
			t.Errorf("%s: %v, %+v, want one that passed and one that failed", name, err, s.Counts)
		}
	}
}

// TestTAPDirectives checks that a TODO test may fail, counts if it passes, and that an escaped # is a part of the name.
func TestTAPDirectives(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"ok":                           "passed base > test 1",
		"not ok":                       "failed base > test 1",
		"ok 7":                         "passed base > test 7",
		"ok 7 8 apples":                "passed base > 8 apples",
		"ok 7th heaven":                "passed base > 7th heaven",
		"ok - # SKIP no network":       "skipped base > test 1",
		"not ok 1 - a # TODO later":    "skipped base > a",
		"ok 1 - a # todo done already": "passed base > a",
		"not ok 1 - a # skipped":       "skipped base > a",
		`not ok 1 - a \# SKIP`:         "failed base > a # SKIP",
		"not ok 1 - issue #12":         "failed base > issue #12",
		"not ok 1 - a # SKIP # 2":      "skipped base > a",
	} {
		s, err := parse(results.FormatTAP, []byte(line+"\n"))
		if got := strings.Join(verdicts(s), "\n"); err != nil || got != want {
			t.Errorf("%q = %q, %v, want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"okay 1", "not okay", "OK 1", "ok1", "nothing"} {
		if s, _ := parse(results.FormatTAP, []byte(line+"\n")); s.Counts.Total != 0 {
			t.Errorf("%q is taken for a test", line)
		}
	}
}

// TestTAPPlan checks that planned tests that did not run are counted, and that the plan itself fails.
func TestTAPPlan(t *testing.T) {
	t.Parallel()
	for report, want := range map[string]results.Counts{
		"1..2\nok 1\nok 2\n":          {Total: 2, Passed: 2},
		"1..3\nok 1\n":                {Total: 3, Passed: 1, NotRun: 2, Errored: 1},
		"1..1\nok 1\nok 2\n":          {Total: 2, Passed: 2},
		"1..-3\nok 1\n":               {Total: 1, Passed: 1},
		"1..0 # SKIP none here\n":     {Total: 1, Skipped: 1},
		"1..0 # no\n":                 {},
		"1..2\nok 1\nBail out! fire":  {Total: 2, Passed: 1, NotRun: 1, Errored: 1},
		"    1..9\n    ok 1\nok 1\n":  {Total: 1, Passed: 1},
		"    ok 1 - a\n    not ok 2 ": {Total: 2, Passed: 1, Failed: 1},
	} {
		s, err := parse(results.FormatTAP, []byte(report))
		if err != nil || s.Counts != want {
			t.Errorf("%q = %+v, %v, want %+v", report, s.Counts, err, want)
		}
	}
}

// TestJestFilesThatBreakAfterTheirTests checks that a file of Jest or Vitest that failed without a failed test is a failure of its own.
func TestJestFilesThatBreakAfterTheirTests(t *testing.T) {
	t.Parallel()
	const report = `{"testResults":[
		{"name":"/p/a.test.js","status":"failed","message":"Error: the database did not stop\n    at stop (/p/a.test.js:9:1)","assertionResults":[{"fullName":"works","title":"works","status":"passed"}]},
		{"name":"/p/b.test.js","status":"failed","message":"all of it","assertionResults":[{"fullName":"breaks","title":"breaks","status":"failed","failureMessages":["Error: no"]}]},
		{"name":"/p/c.test.js","status":"passed","message":"","assertionResults":[{"fullName":"retried","title":"retried","status":"passed","retryReasons":["Error: once"]}]}]}`
	s, err := parse(results.FormatJest, []byte(report))
	if err != nil {
		t.Fatal(err)
	}
	check(t, s)
	var got []string
	for _, c := range s.Failing {
		got = append(got, fmt.Sprintf("%s %s:%d %s", c.Status, c.ID, c.Line, c.Message))
	}
	want := []string{
		"errored /p/a.test.js:9 Error: the database did not stop", "failed /p/b.test.js > breaks:0 Error: no", "flaky /p/c.test.js > retried:0 Error: once",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failing (-want +got):\n%s", diff)
	}
}
