package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const stream = `# example.com/broken is not an event
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: noise of a test that passes\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: no perl here: {\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"        second line\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1.2s\n"}
{"Action":"pass","Package":"p","Elapsed":1.25}
`

func report1(t *testing.T, in string, patterns ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	var allowed []*regexp.Regexp
	for _, p := range patterns {
		allowed = append(allowed, regexp.MustCompile(p))
	}
	ok := r.printEnd(allowed)
	return out.String(), ok
}

func wantLines(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("the report lacks the line %q:\n%s", line, got)
		}
	}
}

func TestReport(t *testing.T) {
	got, ok := report1(t, stream)
	wantLines(t, got, "# example.com/broken is not an event", "ok  \tp\t1.2s", "    1  no perl here: { second line", "         p TestB",
		"1 passed, 0 failed, 1 skipped")
	if !ok || strings.Contains(got, "noise") {
		t.Errorf("ok = %v, want true and no output of tests that passed:\n%s", ok, got)
	}
}

func TestListSlowest(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA/x/one","Elapsed":4}
{"Action":"fail","Package":"p","Test":"TestA/x","Elapsed":9}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":9}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":5.25}
{"Action":"pass","Package":"p","Test":"TestC","Elapsed":1}
`))
	if err != nil {
		t.Fatal(err)
	}
	r.listSlowest(0)
	if strings.Contains(out.String(), "Slowest") {
		t.Errorf("the report lists tests, want none:\n%s", out.String())
	}
	out.Reset()
	r.listSlowest(2)
	if want := "\nSlowest tests:\n     5.2 s  p TestB\n     4.0 s  p TestA/x/one\n"; out.String() != want {
		t.Errorf("the report is %q, want %q", out.String(), want)
	}
}

func TestSkipsMustBeAllowed(t *testing.T) {
	if got, ok := report1(t, stream, "^no perl"); !ok {
		t.Errorf("an allowed skip fails the report:\n%s", got)
	}
	got, ok := report1(t, stream, "^no python")
	wantLines(t, got, "!   1  no perl here: { second line")
	if ok {
		t.Error("a skip that no pattern allows does not fail the report")
	}
}

func TestFailures(t *testing.T) {
	got, ok := report1(t, `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"q","Output":"goroutine 1\n"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t600s\n"}
{"Action":"fail","Package":"q"}
{"ImportPath":"r","Action":"build-output","Output":"r.go:1: undefined: x\n"}
{"Action":"fail","Package":"r","FailedBuild":"r"}
`)
	wantLines(t, got, "    a_test.go:3: wrong", "panic: test timed out", "r.go:1: undefined: x", "goroutine 1", "FAIL\tq\t600s",
		"0 passed, 3 failed, 0 skipped")
	if ok {
		t.Error("failures do not fail the report")
	}
	if end := "\nFailed: p TestA\n    a_test.go:3: wrong\n\n0 passed, 3 failed, 0 skipped\n"; !strings.HasSuffix(got, end) {
		t.Errorf("the report does not end with the output of the failed test:\n%s", got)
	}
}

// failures has a failed subtest, its parent, a failed test, and a package that panicked in its second test.
const failures = `{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`
const panicked = `{"Action":"fail","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q"}
`

func TestRunAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		in     string
		limit  int
		passes []string // the tests that pass alone
		again  []string // the tests that run again
		ok     bool
		last   string
	}{
		{"all pass", failures, 2, []string{"TestA/x", "TestB"}, []string{"TestA/x", "TestB"}, true, "3 passed, 0 failed, 0 skipped"},
		{"one fails alone", failures, 2, []string{"TestA/x"}, []string{"TestA/x", "TestB", "TestB"}, false, "2 passed, 1 failed, 0 skipped"},
		{"a subtest fails alone", failures, 2, []string{"TestB"}, []string{"TestA/x", "TestA/x", "TestB"}, false, "1 passed, 2 failed, 0 skipped"},
		{"too many", failures, 1, []string{"TestA/x", "TestB"}, nil, false, "0 passed, 3 failed, 0 skipped"},
		{"not asked for", failures, 0, []string{"TestA/x", "TestB"}, nil, false, "0 passed, 3 failed, 0 skipped"},
		{"tests after a panic did not run", panicked, 2, []string{"TestC"}, []string{"TestC"}, false, "1 passed, 1 failed, 0 skipped"},
	} {
		var out strings.Builder
		r := newReport(&out)
		if err := r.read(strings.NewReader(tt.in)); err != nil {
			t.Fatal(err)
		}
		var again []string
		r.runAgain(tt.limit, func(at id) bool {
			again = append(again, at.test)
			return slices.Contains(tt.passes, at.test)
		})
		if ok := r.printEnd(nil); ok != tt.ok || !slices.Equal(again, tt.again) {
			t.Errorf("%s: ok = %v, run again %q; want %v, %q", tt.name, ok, again, tt.ok, tt.again)
		}
		wantLines(t, out.String(), tt.last)
	}
}

// The status of go test counts when no failed test explains it.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		ok       bool
	}{
		{"all passed", stream + "exit 0\n", true},
		{"not known", stream, true},
		{"go test did not run", "exit 1\n", false},
		{"go test failed without a failed test", stream + "exit 1\n", false},
		{"an unstable test", failures + "exit 1\n", true},
	} {
		var out strings.Builder
		r := newReport(&out)
		if err := r.read(strings.NewReader(tt.in)); err != nil {
			t.Fatal(err)
		}
		r.runAgain(2, func(id) bool { return true })
		if ok := r.printEnd(nil); ok != tt.ok || strings.Contains(out.String(), "exit") {
			t.Errorf("%s: ok = %v, want %v:\n%s", tt.name, ok, tt.ok, out.String())
		}
	}
}

// A test is run alone by its name, whatever characters it holds.
func TestPassesAlone(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module p\n",
		"a_test.go": "package p\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Run(\"a.b (c)\", func(*testing.T) {})\n\tt.Run(\"axb (c)\", func(t *testing.T) { t.Error() })\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for name, want := range map[string]bool{"TestA/a.b_(c)": true, "TestA/axb_(c)": false, "TestA": false} {
		if got := passesAlone([]string{"go", "test"}, id{"p", name}); got != want {
			t.Errorf("passesAlone(%s) = %v, want %v", name, got, want)
		}
	}
}

func TestEmptyAllowFileAllowsNothing(t *testing.T) {
	if isAllowed([]*regexp.Regexp{}, "any reason") {
		t.Error("a list without patterns allows a skip")
	}
}

func TestSkipReason(t *testing.T) {
	for _, tt := range []struct {
		name   string
		output []string
		want   string
	}{
		{"message", []string{"=== RUN   TestX\n", "    x_test.go:3: logged before\n", "    x_test.go:4: no git\n", "--- SKIP: TestX (0.00s)\n"}, "no git"},
		{"message of two lines", []string{"    x_test.go:4: no git:\n", "        not found\n"}, "no git: not found"},
		{"testscript", []string{"    testscript.go:584: WORK=$WORK\n", "        PATH=/bin\n", "        > [!namespaces] skip 'no namespaces'\n", "        > [!exec:psql] skip 'psql is not installed'\n", "        \n"}, "psql is not installed"},
		{"none", []string{"--- SKIP: TestX (0.00s)\n"}, "no reason given"},
	} {
		if got := skipReason(tt.output); got != tt.want {
			t.Errorf("%s: skipReason = %q, want %q", tt.name, got, tt.want)
		}
	}
}
