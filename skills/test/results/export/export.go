// Package export writes a [results.Set] in the formats that other tools read: JUnit XML and the Common Test Report Format
// (CTRF). The package results reads both back.
package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/test/results"
)

// Run describes the run to which the cases belong.
type Run struct {
	Tool     string
	Start    time.Time
	Duration time.Duration
}

// eachCase yields every kept case of s, the failing ones with message and detail.
func eachCase(s *results.Set, yield func(results.Case)) {
	failing := map[string][]int{}
	for i := range s.Failing {
		failing[s.Failing[i].ID] = append(failing[s.Failing[i].ID], i)
	}
	for _, c := range s.Cases {
		if at := failing[c.ID]; c.Failing() && len(at) > 0 {
			c, failing[c.ID] = s.Failing[at[0]], at[1:]
		}
		yield(c)
	}
	for i := range s.Failing {
		if s.Failing[i].Package {
			yield(s.Failing[i])
		}
	}
}

type junitOut struct {
	XMLName xml.Name    `xml:"testcase"`
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Time    string      `xml:"time,attr"`
	File    string      `xml:"file,attr,omitempty"`
	Line    int         `xml:"line,attr,omitempty"`
	Skipped *struct{}   `xml:"skipped"`
	Error   *junitFault `xml:"error"`
	Failure *junitFault `xml:"failure"`
	Flaky   *junitFault `xml:"flakyFailure"`
}

type junitFault struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"` // readers take an error with a type for an exception
	Text    string `xml:",chardata"`
}

// JUnit writes the cases of s as JUnit XML: one suite, in the form that common schemas allow. Tests that were not run
// are skipped there.
func JUnit(w io.Writer, s *results.Set, run Run) error {
	out := bufio.NewWriter(w)
	packages := 0
	for i := range s.Failing {
		if s.Failing[i].Package {
			packages++
		}
	}
	tests := len(s.Cases) + packages
	took := fmt.Sprintf("%.3f", run.Duration.Seconds())
	name := escapeAttribute(run.Tool)
	fmt.Fprintf(out, "%s<testsuites name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"%s\">\n", xml.Header, name, tests, s.Counts.Failed, s.Counts.Errored, took)
	fmt.Fprintf(out, "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%s\" timestamp=\"%s\" hostname=\"localhost\">\n",
		name, tests, s.Counts.Failed, s.Counts.Errored, s.Counts.Skipped+s.Counts.NotRun, took, run.Start.UTC().Format("2006-01-02T15:04:05"))
	e := xml.NewEncoder(out)
	e.Indent("    ", "  ")
	var err error
	eachCase(s, func(c results.Case) {
		if err == nil {
			err = e.Encode(junitCase(c))
		}
	})
	if err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	fmt.Fprint(out, "\n  </testsuite>\n</testsuites>\n")
	return out.Flush()
}

func escapeAttribute(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

func junitCase(c results.Case) junitOut {
	out := junitOut{Name: cmp.Or(c.Name, c.ID), Class: cmp.Or(c.Suite, "tests"), Time: fmt.Sprintf("%.3f", c.Duration.Seconds()), File: c.File, Line: c.Line}
	fault := &junitFault{Message: c.Message, Type: string(c.Kind), Text: c.Detail}
	switch c.Status {
	case results.Failed:
		out.Failure = fault
	case results.Errored:
		out.Error = &junitFault{Message: c.Message, Text: c.Detail}
	case results.Flaky:
		out.Flaky = fault
	case results.Skipped, results.NotRun:
		out.Skipped = &struct{}{}
	}
	return out
}

type ctrfSummary struct {
	Tests   int   `json:"tests"`
	Passed  int   `json:"passed"`
	Failed  int   `json:"failed"`
	Skipped int   `json:"skipped"`
	Pending int   `json:"pending"`
	Other   int   `json:"other"`
	Flaky   int   `json:"flaky"`
	Start   int64 `json:"start"`
	Stop    int64 `json:"stop"`
}

// CTRF writes the cases of s in the Common Test Report Format. A test that was errored or not
// run has the status "other" there, and its [results.Status] as rawStatus.
func CTRF(w io.Writer, s *results.Set, run Run) error {
	out := bufio.NewWriter(w)
	tests := []results.CTRFTest{}
	sum := ctrfSummary{Start: run.Start.UnixMilli(), Stop: run.Start.Add(run.Duration).UnixMilli()}
	eachCase(s, func(c results.Case) {
		t := ctrfCase(c)
		sum.Tests++
		switch {
		case t.Status == "failed":
			sum.Failed++
		case t.Status == "skipped":
			sum.Skipped++
		case t.Status == "other":
			sum.Other++
		default:
			sum.Passed++
			if t.Flaky {
				sum.Flaky++
			}
		}
		tests = append(tests, t)
	})
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(map[string]any{
		"reportFormat": "CTRF", "specVersion": "0.0.0", "generatedBy": "spritekit",
		"results": map[string]any{"tool": map[string]string{"name": run.Tool}, "summary": sum, "tests": tests},
	})
	if err != nil {
		return fmt.Errorf("write the CTRF report: %w", err)
	}
	return out.Flush()
}

func ctrfCase(c results.Case) results.CTRFTest {
	t := results.CTRFTest{Name: cmp.Or(c.Name, c.ID), Duration: float64(c.Duration.Milliseconds()), Message: c.Message, Trace: c.Detail, FilePath: c.File, Line: c.Line}
	if c.Suite != "" {
		t.Suite, _ = json.Marshal([]string{c.Suite}) // strings cannot fail
	}
	switch c.Status {
	case results.Passed:
		t.Status = "passed"
	case results.Flaky:
		t.Status, t.Flaky = "passed", true
	case results.Failed:
		t.Status = "failed"
	case results.Skipped:
		t.Status = "skipped"
	case results.Errored, results.NotRun:
		t.Status, t.RawStatus = "other", string(c.Status)
	}
	return t
}
