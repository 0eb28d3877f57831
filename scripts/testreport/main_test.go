package main

import (
	"regexp"
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
	ok := r.finish(allowed)
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
}

func TestEmptyAllowFileAllowsNothing(t *testing.T) {
	if allows([]*regexp.Regexp{}, "any reason") {
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
