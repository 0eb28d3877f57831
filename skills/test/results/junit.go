package results

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// xmlVisitor receives the start and end of each element and the text between.
type xmlVisitor interface {
	startElement(name string, attr func(string) string)
	endElement(name string)
	addText(data []byte)
}

var errDeep = errors.New("the report is nested too deeply")

// walkXML reads a document with bounded depth. Characters that XML forbids, which runners write all the same, count
// as replacement characters. If a document is cut off, the visitor has seen the part before that.
func walkXML(r io.Reader, v xmlVisitor) error {
	d := xml.NewDecoder(&xmlFilter{r: r})
	d.Strict = false                                                                     // entities that it does not know stay as they are; it expands none that a document defines
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // the filter made it UTF-8
	for depth := 0; ; {
		t, err := d.RawToken()
		if err == io.EOF {
			if depth > 0 {
				return errors.New("the report breaks off")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("parse the report: %w", err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if depth++; depth > maxNesting {
				return errDeep
			}
			v.startElement(t.Name.Local, func(name string) string {
				for _, a := range t.Attr {
					if a.Name.Local == name {
						return a.Value
					}
				}
				return ""
			})
		case xml.EndElement:
			if depth--; depth < 0 {
				return errors.New("the report closes what it did not open")
			}
			v.endElement(t.Name.Local)
		case xml.CharData:
			v.addText(t)
		}
	}
}

// junitWalk reads the XML that nearly every runner can write and no two write alike: a testcase counts at any depth,
// counts are taken from the cases and never from attributes. base names the suite where the report does not. Rerun and
// flaky children (surefire, nextest) make a passing case flaky.
type junitWalk struct {
	set    *Set
	base   string
	suites []junitSuite
	open   bool // inside a testcase
	c      Case
	class  string
	flaky  bool
	kind   string // the failure's type
	inside string // child of the testcase that is being read
	body   limited
	output limited

	unnamed bool // the testcase has no name
}

type junitSuite struct{ name, file string }

func (w *junitWalk) startElement(name string, attr func(string) string) {
	switch {
	case name == "testsuite":
		suite := junitSuite{attr("name"), attr("file")}
		if n := len(w.suites); n > 0 && suite.file == "" {
			suite.file = w.suites[n-1].file
		}
		w.suites = append(w.suites, suite)
	case name == "testcase" && !w.open:
		w.beginCase(attr)
	case w.open && w.inside == "":
		w.startChild(name, attr)
	}
}

func (w *junitWalk) beginCase(attr func(string) string) {
	w.open, w.flaky, w.inside, w.kind = true, false, "", ""
	w.output = limited{max: MaxDetail}
	w.class, w.unnamed = attr("classname"), attr("name") == ""
	w.c = Case{Name: attr("name"), Suite: w.class, File: attr("file"), Status: Passed}
	if n := len(w.suites); n > 0 {
		if w.c.Suite == "" {
			w.c.Suite = w.suites[n-1].name
		}
		if w.c.File == "" {
			w.c.File = w.suites[n-1].file
		}
	}
	w.c.Suite = cmp.Or(w.c.Suite, w.base)
	w.c.Line, _ = strconv.Atoi(attr("line")) // 0 when there is none
	s, _ := strconv.ParseFloat(strings.ReplaceAll(attr("time"), ",", ""), 64)
	w.c.Duration = fromSeconds(s)
	if status := attr("status"); status == "notrun" || status == "disabled" {
		w.c.Status = Skipped
	}
}

// startChild reads the outcome of a testcase. The first failure counts; a failure outweighs a skip.
func (w *junitWalk) startChild(name string, attr func(string) string) {
	w.inside, w.body = name, limited{max: 64 << 10}
	status := Status("")
	switch name {
	case "failure":
		status = Failed
	case "error":
		status = Errored
	case "skipped":
		if w.c.Status == Passed || w.c.Status == Skipped {
			w.c.Status, w.c.Message = Skipped, attr("message")
		}
	case "flakyFailure", "flakyError":
		w.flaky = true
		if w.c.Message == "" {
			w.c.Message, w.kind = attr("message"), attr("type")
		}
	}
	if status != "" && w.c.Status != Failed && w.c.Status != Errored {
		w.c.Message, w.kind = attr("message"), attr("type")
		w.c.Status, w.c.Kind = junitVerdict(status, attr("type"), w.c.Message)
	}
}

// junitVerdict tells a test that threw something, an error with a type, from one that could not run.
func junitVerdict(status Status, kind, message string) (Status, Kind) {
	both := strings.ToLower(kind + " " + message)
	switch {
	case strings.Contains(both, "timeout") || strings.Contains(both, "timed out"):
		return Failed, Timeout
	case status == Failed && strings.Contains(both, "panic"), status == Errored && kind != "":
		return Failed, Panic
	case status == Errored:
		return Errored, Setup
	}
	return Failed, Assertion
}

func (w *junitWalk) addText(data []byte) {
	if w.open && w.inside != "" {
		w.body.addBytes(data)
	}
}

func (w *junitWalk) endElement(name string) {
	switch {
	case name == "testsuite" && len(w.suites) > 0:
		w.suites = w.suites[:len(w.suites)-1]
	case name == "testcase" && w.open:
		w.open = false
		w.addCase()
	case w.open && name == w.inside:
		body := strings.TrimSpace(w.body.joinEnds())
		switch name {
		case "failure", "error", "flakyFailure", "flakyError":
			w.c.Detail = cmp.Or(w.c.Detail, body)
		case "system-out", "system-err":
			if body != "" {
				w.output.addBytes([]byte(body + "\n"))
			}
		}
		w.inside = ""
	}
}

func (w *junitWalk) addCase() {
	if w.unnamed && w.c.Status == Passed {
		w.c.Status = NotRun // pytest reports the running test like this when it is interrupted
	}
	if w.flaky && w.c.Status == Passed {
		w.c.Status = Flaky
	}
	out := strings.TrimSpace(w.output.joinEnds())
	if w.c.Failing() {
		w.c.Message = firstOf(w.c.Message, firstParagraph(w.c.Detail), w.kind, firstParagraph(out))
	}
	switch {
	case !w.c.Failing() || out == "":
	case w.c.Detail == "":
		w.c.Detail = out
	default:
		w.c.Detail += "\n--- output\n" + out
	}
	w.set.Add(w.c)
	w.c = Case{}
}

// limited collects text up to a limit, its start and its end.
type limited struct {
	max        int
	head, tail []byte
}

func (l *limited) addBytes(p []byte) {
	keep := min(len(p), l.max/2-len(l.head))
	l.head = append(l.head, p[:keep]...)
	if p = p[keep:]; len(p) > 0 {
		p = p[max(0, len(p)-l.max/2):]
		l.tail = append(l.tail[max(0, len(l.tail)+len(p)-l.max/2):], p...)
	}
}

func (l *limited) joinEnds() string { return string(l.head) + string(l.tail) }

// firstOf returns the first of the texts that is not blank.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
