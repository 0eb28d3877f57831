package results

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Run is what an exported report says besides the cases.
type Run struct {
	Tool     string
	Start    time.Time
	Duration time.Duration
}

// all yields every kept case, the failing ones with message and detail.
func (s *Set) all(yield func(Case)) {
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

// WriteJUnit writes the cases as JUnit XML: one suite, in the form that common schemas allow. Tests that were not run
// are skipped there.
func (s *Set) WriteJUnit(w io.Writer, run Run) error {
	out := bufio.NewWriter(w)
	packages := 0
	for i := range s.Failing {
		if s.Failing[i].Package {
			packages++
		}
	}
	tests := len(s.Cases) + packages
	took := fmt.Sprintf("%.3f", run.Duration.Seconds())
	name := attribute(run.Tool)
	fmt.Fprintf(out, "%s<testsuites name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"%s\">\n", xml.Header, name, tests, s.Counts.Failed, s.Counts.Errored, took)
	fmt.Fprintf(out, "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\" time=\"%s\" timestamp=\"%s\" hostname=\"localhost\">\n",
		name, tests, s.Counts.Failed, s.Counts.Errored, s.Counts.Skipped+s.Counts.NotRun, took, run.Start.UTC().Format("2006-01-02T15:04:05"))
	e := xml.NewEncoder(out)
	e.Indent("    ", "  ")
	var err error
	s.all(func(c Case) {
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

func attribute(text string) string {
	var b bufferString
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes all
	return string(b)
}

type bufferString []byte

func (b *bufferString) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }

func junitCase(c Case) junitOut {
	out := junitOut{Name: firstOf(c.Name, c.ID), Class: firstOf(c.Suite, "tests"), Time: fmt.Sprintf("%.3f", c.Duration.Seconds()), File: c.File, Line: c.Line}
	fault := &junitFault{Message: c.Message, Type: string(c.Kind), Text: c.Detail}
	switch c.Status {
	case Failed:
		out.Failure = fault
	case Errored:
		out.Error = &junitFault{Message: c.Message, Text: c.Detail}
	case Flaky:
		out.Flaky = fault
	case Skipped, NotRun:
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

// WriteCTRF writes the cases in the Common Test Report Format. What was errored or not run is "other" there, with the
// word of this package as rawStatus.
func (s *Set) WriteCTRF(w io.Writer, run Run) error {
	out := bufio.NewWriter(w)
	tests := []ctrfTest{}
	sum := ctrfSummary{Start: run.Start.UnixMilli(), Stop: run.Start.Add(run.Duration).UnixMilli()}
	s.all(func(c Case) {
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

func ctrfCase(c Case) ctrfTest {
	t := ctrfTest{Name: firstOf(c.Name, c.ID), Duration: float64(c.Duration.Milliseconds()), Message: c.Message, Trace: c.Detail, FilePath: c.File, Line: c.Line}
	if c.Suite != "" {
		t.Suite, _ = json.Marshal([]string{c.Suite}) // strings cannot fail
	}
	switch c.Status {
	case Passed:
		t.Status = "passed"
	case Flaky:
		t.Status, t.Flaky = "passed", true
	case Failed:
		t.Status = "failed"
	case Skipped:
		t.Status = "skipped"
	case Errored, NotRun:
		t.Status, t.RawStatus = "other", string(c.Status)
	}
	return t
}
