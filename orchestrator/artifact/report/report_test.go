package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRecognise: files that real tools wrote are recognised by their content, and others are not.
func TestRecognise(t *testing.T) {
	t.Parallel()
	recorded := "../../../skills/test/testdata/reports/"
	for file, want := range map[string]string{
		recorded + "pytest.xml":      "junit: 2 passed, 3 failed, 2 skipped",
		recorded + "ctest.xml":       "junit: 1 passed, 2 failed, 2 skipped",
		recorded + "phpunit.xml":     "junit: 2 passed, 3 failed, 1 skipped",
		recorded + "surefire.xml":    "junit: 1 passed, 3 failed, 1 skipped",
		"testdata/staticcheck.sarif": "sarif: 4 warning",
		recorded + "mocha.json":      "",
		recorded + "cargo.txt":       "",
		"report.go":                  "",
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		r := Recognise(data)
		if r != nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", filepath.Base(file), got, want)
		}
	}
}

// TestFindings: a failed test has its message, and a finding of an analyser its rule, level, path and line.
func TestFindings(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/staticcheck.sarif")
	if err != nil {
		t.Fatal(err)
	}
	r := Recognise(data)
	for i, want := range []string{"calc.go:9: warning: U1000: func unused is unused", "calc.go:13: warning: SA4000: identical expressions"} {
		if r.Tool != "Staticcheck" || !strings.HasPrefix(r.Findings[i].String(), want) {
			t.Errorf("finding %d of %s is %s, want %s", i, r.Tool, r.Findings[i], want)
		}
	}
	rules := `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"tool":{"driver":{"name":"a","rules":[{"id":"R","defaultConfiguration":{"level":"note"}}]}},"results":[
		{"ruleIndex":0,"message":{"text":"by its rule"}}, {"ruleId":"R","level":"error","message":{"text":"its own"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"file:///src/a%20b.go"},"region":{"startLine":-7}}}]},
		{"ruleId":"R","kind":"pass","message":{"text":"passed"}}, {"ruleId":"R","suppressions":[{"kind":"inSource"}],"message":{"text":"suppressed"}},
		{"ruleId":"R","suppressions":[{"status":"rejected"}],"message":{"text":"not suppressed"}}, {"ruleIndex":9,"level":"catastrophe","message":{"text":"unknown"}}]}]}`
	if got, want := Recognise([]byte(rules)), "sarif: 1 error, 1 warning, 2 note, 1 none"; got.String() != want || got.Findings[0].String() != "/src/a b.go: error: R: its own" {
		t.Errorf("%s %v, want %s", got, got.Findings, want)
	}
}

// TestHostileReports: a summary is small whatever a file holds, and nothing of it controls a terminal.
func TestHostileReports(t *testing.T) {
	laughs := `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">]>` +
		`<testsuites><testsuite name="&b;"><testcase name="&x;&b;"><failure message="&x;">&b;&x;</failure></testcase></testsuite></testsuites>`
	many := `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[` + strings.TrimSuffix(strings.Repeat(`{"ruleId":"R","message":{"text":"\u001b[2J\u202e`+strings.Repeat("long ", 100)+`"}},`, 12000), ",") + `]}]}`
	for name, text := range map[string]string{
		"entities": laughs, "many findings": many,
		"many cases": "<testsuite>" + strings.Repeat(`<testcase name="x&#27;[2J"><failure/></testcase>`, 100_000) + "</testsuite>",
		"cut off":    "<testsuite><testcase name='a'><failure>",
		"deep":       "<testsuite>" + strings.Repeat("<a>", 1<<20),
		"deep JSON":  `{"version":"2.1.0","runs":` + strings.Repeat("[", 1<<20),
		"types":      `{"version":"2.1.0","$schema":"sarif","runs":[{"tool":7,"results":[7,{"message":7,"level":[],"locations":{}}]}]}`,
		"encoding":   `<?xml version="1.0" encoding="UTF-16"?><testsuite><testcase name="a"/></testsuite>`,
		"nulls":      `{"version":"2.1.0","$schema":"sarif","runs":[null,{"results":null}]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := Recognise([]byte(text))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
			t.Errorf("%s: %d bytes of text need %d bytes of memory", name, len(text), used)
		}
		out, err := json.Marshal(r)
		if err != nil || len(out) > 32<<10 || bytes.ContainsAny(out, "\x1b") || strings.Contains(string(out), `\u001b`) || strings.Contains(string(out), "\u202e") {
			t.Errorf("%s: a summary of %d bytes, %v: %.300s", name, len(out), err, out)
		}
		if strings.Contains(string(out), "haha") || strings.Contains(string(out), "root:") {
			t.Errorf("%s: an entity was expanded: %s", name, out)
		}
		if r != nil && len(r.Findings) > MaxFindings {
			t.Errorf("%s: %d findings", name, len(r.Findings))
		}
	}
	if r := Recognise([]byte(many)); r.Levels["warning"] != 12000 || r.Omitted != 12000-MaxFindings {
		t.Errorf("%v and %d more, want all counted", r.Levels, r.Omitted)
	}
}
