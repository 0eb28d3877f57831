package results_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/test/results"
)

// TestLocators checks that a locator finds the line of the test that failed, not one in a library, and leaves a case unchanged if
// the output names no line.
func TestLocators(t *testing.T) {
	t.Parallel()
	l := results.NewLocator()
	failed := func(file string, line int, suite, detail string) results.Case {
		return results.Case{File: file, Line: line, Suite: suite, Detail: detail, Status: results.Failed}
	}
	for _, tc := range []struct {
		name   string
		locate func(*results.Case)
		in     results.Case
		want   string
	}{
		{"Java", l.Java, failed("", 0, "org.a.CalcTest", "org.junit.Error: no\n\tat org.junit.Assert.fail(Assert.java:89)\n\tat org.a.CalcTest.adds(CalcTest.java:12)\n\tat org.a.CalcTest.main(CalcTest.java:40)"), "org/a/CalcTest.java:12"},
		{"Java in a module", l.Java, failed("", 0, "CalcTest", "\tat app//CalcTest.adds(CalcTest.java:7)"), "CalcTest.java:7"},
		{"an inner class of Java", l.Java, failed("", 0, "a.B", "\tat a.B$Inner.lambda$x$0(B.kt:3)"), "a/B.kt:3"},
		{"Java elsewhere", l.Java, failed("old", 1, "a.B", "\tat a.BB.x(BB.java:3)"), "old:1"},
		{"C", l.C, failed("", 0, "", "t: /src/calc_test.c:31: main: Assertion `x' failed."), "/src/calc_test.c:31"},
		{"C with a place", l.C, failed("given.c", 2, "", "calc.c:31: no"), "given.c:2"},
		{"C without one", l.C, failed("", 0, "", "calc.cobol:31: no"), ":0"},
		{"Rust", l.Rust, failed("", 0, "", "thread 'a' panicked at src/lib.rs:4:9:\nboom\nnote: run with"), "src/lib.rs:4"},
		{"PHP", l.PHP, failed("/t/ATest.php", 5, "", "no\n/lib/x.php:3\n/t/ATest.php:17\n/t/ATest.php:21\n/vendor/y.php:9"), "/t/ATest.php:21"},
		{"PHP elsewhere", l.PHP, failed("/t/ATest.php", 5, "", "/lib/x.php:3"), "/t/ATest.php:5"},
		{"Python", l.Python, failed("t/test_a.py", 9, "", "t/test_a.py:12: in test\nlib/b.py:3: in f\nt/test_a.py:14: AssertionError"), "t/test_a.py:14"},
		{"Python counts from 0", l.Python, failed("t/test_a.py", 0, "", "lib/b.py:3: KeyError"), "t/test_a.py:1"},
		{"Python without a place", l.Python, failed("", 0, "", "nothing"), ":0"},
		{"a line beyond all numbers", l.C, failed("", 0, "", "a.c:99999999999999999999: no"), "a.c:0"},
	} {
		c := tc.in
		tc.locate(&c)
		if got := fmt.Sprintf("%s:%d", c.File, c.Line); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestRustMessages checks that a panic sets the message, that a failed assertion is not a panic, and that a passed test is unchanged.
func TestRustMessages(t *testing.T) {
	t.Parallel()
	l := results.NewLocator()
	const detail = "panicked at src/lib.rs:4:9:\nassertion `left == right` failed\n  left: 1\n right: 2\n\nnote"
	c := results.Case{Status: results.Failed, Kind: results.Panic, Detail: detail}
	l.Rust(&c)
	if c.Message != "assertion `left == right` failed\n  left: 1\n right: 2" || c.Kind != results.Assertion {
		t.Errorf("message %q, kind %s", c.Message, c.Kind)
	}
	c = results.Case{Status: results.Passed, Detail: detail}
	if l.Rust(&c); c.File != "" || c.Message != "" {
		t.Errorf("a test that passed is located: %+v", c)
	}
}

// TestCompilerErrors checks that each error is found once, with its place, and that similar lines are ignored.
func TestCompilerErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, output string
		want         []results.BuildError
	}{
		{"Maven", "[ERROR] /s/A.java:[3,5] ';' expected\n[ERROR] /s/A.java:[3,5] ';' expected\n[ERROR] BUILD FAILED\n", []results.BuildError{{File: "/s/A.java", Line: 3, Col: 5, Message: "';' expected"}}},
		{"javac under Ant", "[javac] src/A.java:3: error: ';' expected\n", []results.BuildError{{File: "src/A.java", Line: 3, Message: "error: ';' expected"}}},
		{"kotlinc", "e: file:///s/A.kt:3:5 Unresolved reference\n", []results.BuildError{{File: "/s/A.kt", Line: 3, Col: 5, Message: "Unresolved reference"}}},
		{"csc", "  A.cs(3,5): error CS1002: ; expected [/s/a.csproj]\n", []results.BuildError{{File: "A.cs", Line: 3, Col: 5, Message: "error CS1002: ; expected"}}},
		{"gcc", "a.h:3:5: fatal error: x.h: No such file\na.c:1:1: warning: unused error\n", []results.BuildError{{File: "a.h", Line: 3, Col: 5, Message: "fatal error: x.h: No such file"}}},
		{"rustc", "error[E0425]: cannot find `x`\n --> src/lib.rs:3:5\n  |\n\nerror: could not compile `calc`\n", []results.BuildError{{File: "src/lib.rs", Line: 3, Col: 5, Message: "error[E0425]: cannot find `x`"}}},
		{"rustc without a place", "error: linker `cc` not found\n\nerror: test failed, to rerun pass `--lib`\n", []results.BuildError{{Message: "error: linker `cc` not found"}}},
		{"two of rustc in a row", "error: one\nerror: two\n --> a.rs:1:1\n", []results.BuildError{{Message: "error: one"}, {File: "a.rs", Line: 1, Col: 1, Message: "error: two"}}},
		{"a test's own words", "error handling works\nan error: none\n", nil},
	} {
		var s results.Set
		c := results.NewCompiler(&s)
		feed(c, tc.output)
		if diff := cmp.Diff(tc.want, s.Build); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	var s results.Set
	feed(results.NewCompiler(&s), "error: failed to download `serde v1.0.0`\n")
	if s.Setup != "failed to download `serde v1.0.0`" || len(s.Build) != 0 {
		t.Errorf("a dependency that cannot be fetched: setup %q, build %+v", s.Setup, s.Build)
	}
}

// TestRecovered checks that only tests that failed and then passed count: not those that failed again, did not run, or stand for
// a package.
func TestRecovered(t *testing.T) {
	t.Parallel()
	makeSet := func(cases ...results.Case) *results.Set {
		var s results.Set
		for _, c := range cases {
			s.Add(c)
		}
		return &s
	}
	first := makeSet(
		results.Case{ID: "flaky", Status: results.Failed}, results.Case{ID: "broken", Status: results.Failed}, results.Case{ID: "gone", Status: results.Failed},
		results.Case{ID: "both", Status: results.Failed}, results.Case{ID: "pkg", Status: results.Errored, Package: true}, results.Case{ID: "ok", Status: results.Passed},
	)
	again := makeSet(
		results.Case{ID: "flaky", Status: results.Passed}, results.Case{ID: "broken", Status: results.Failed}, results.Case{ID: "pkg", Status: results.Passed},
		results.Case{ID: "both", Status: results.Passed}, results.Case{ID: "both", Status: results.Failed},
	)
	if n := first.Recovered(again); n != 1 {
		t.Errorf("Recovered = %d, want 1", n)
	}
	check(t, first)
	want := results.Counts{Total: 5, Passed: 1, Failed: 3, Errored: 1, Flaky: 1}
	if first.Counts != want || first.Cases[0].Status != results.Flaky {
		t.Errorf("counts %+v, cases %+v, want %+v", first.Counts, verdicts(first), want)
	}
	if n := first.Recovered(again); n != 0 {
		t.Errorf("a second Recovered = %d, want 0", n)
	}
}
