package export_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"slices"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/skills/test/results/export"
)

// everyStatus is a set with one case of each status.
func everyStatus() *results.Set {
	var s results.Set
	for _, c := range []results.Case{
		{Name: "a <&\">", Suite: "s", Status: results.Passed, Duration: 1500 * time.Millisecond},
		{Name: "b", Suite: "s", Status: results.Failed, Message: "no", Detail: "no\n]]> at b", File: "b_test.go", Line: 7},
		{Name: "c", Suite: "s", Status: results.Errored, Kind: results.Setup, Message: "no database"},
		{Name: "d", Status: results.Skipped},
		{Name: "e", Status: results.Flaky, Message: "the first time"},
		{Name: "f", Status: results.NotRun},
		{ID: "pkg", Suite: "pkg", Status: results.Errored, Kind: results.Build, Package: true, Message: "does not build"},
	} {
		s.Add(c)
	}
	return &s
}

// CTRF holds what its schema requires and no member that it does not know.
func TestCTRFFollowsItsSchema(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := export.CTRF(&out, everyStatus(), export.Run{Tool: "go", Start: time.Unix(1767323045, 0), Duration: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	var doc object
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	members := func(what string, o object, required []string, optional ...string) {
		t.Helper()
		for _, name := range required {
			if _, ok := o[name]; !ok {
				t.Errorf("%s lacks %s", what, name)
			}
		}
		for name := range o {
			if !slices.Contains(required, name) && !slices.Contains(optional, name) {
				t.Errorf("%s has %s, which the schema does not know", what, name)
			}
		}
	}
	members("the document", doc, []string{"reportFormat", "specVersion", "results"}, "generatedBy")
	r := doc["results"].(object)
	members("results", r, []string{"tool", "summary", "tests"})
	members("tool", r["tool"].(object), []string{"name"})
	summary := r["summary"].(object)
	members("summary", summary, []string{"tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"}, "flaky")
	tests := r["tests"].([]any)
	count := map[string]float64{}
	for _, v := range tests {
		test := v.(object)
		members("a test", test, []string{"name", "status", "duration"}, "message", "trace", "filePath", "line", "suite", "rawStatus", "flaky")
		status := test["status"].(string)
		if !slices.Contains([]string{"passed", "failed", "skipped", "pending", "other"}, status) {
			t.Errorf("status %q", status)
		}
		count[status]++
		if suite, ok := test["suite"]; ok && len(suite.([]any)) == 0 {
			t.Error("an empty suite")
		}
		if d := test["duration"].(float64); d != float64(int64(d)) || test["name"] == "" {
			t.Errorf("test %v", test)
		}
	}
	for _, status := range []string{"passed", "failed", "skipped", "pending", "other"} {
		if summary[status] != count[status] {
			t.Errorf("summary.%s = %v, want %v", status, summary[status], count[status])
		}
	}
	if summary["tests"] != float64(len(tests)) || summary["start"] != 1767323045000.0 || summary["stop"] != 1767323047000.0 {
		t.Errorf("summary = %v", summary)
	}
	var back results.Set
	if err := results.FormatCTRF.Parse(&out, "base", &back); err != nil || back.Counts != (results.Counts{Total: 7, Passed: 1, Failed: 1, Skipped: 1, Errored: 2, Flaky: 1, NotRun: 1}) {
		t.Errorf("read again: %v, %+v", err, back.Counts)
	}
}

// JUnit is well-formed, names suite, class, name and time everywhere, and its counts are those of its cases.
func TestJUnitHoldsTogether(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := export.JUnit(&out, everyStatus(), export.Run{Tool: `go "test"`, Start: time.Unix(1767323045, 0), Duration: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		Suite   struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Errors   int    `xml:"errors,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Time     string `xml:"timestamp,attr"`
			Cases    []struct {
				Name    string    `xml:"name,attr"`
				Class   string    `xml:"classname,attr"`
				Time    string    `xml:"time,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	failures, errs, skipped := 0, 0, 0
	for _, c := range doc.Suite.Cases {
		if c.Name == "" || c.Class == "" || c.Time == "" {
			t.Errorf("a case lacks name, class or time: %+v", c)
		}
		if c.Failure != nil {
			failures++
		}
		if c.Error != nil {
			errs++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	s := doc.Suite
	if s.Name != `go "test"` || s.Tests != 7 || len(s.Cases) != 7 || s.Failures != 1 || failures != 1 || s.Errors != 2 || errs != 2 || s.Skipped != 2 || skipped != 2 || s.Time != "2026-01-02T03:04:05" {
		t.Errorf("suite = %+v\n%s", s, out.String())
	}
}
