// Package report recognises the reports among the files that runs declare, by their content, and summarises them: results of
// tests as JUnit's XML, and findings of analysers as SARIF 2.1. Start with [Recognise]. The files are hostile input: a summary
// is small whatever they hold, entities that a document defines are not expanded, and texts lose their control characters.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/spritekit/text"
)

// Formats of reports.
const (
	JUnit = "junit"
	SARIF = "sarif"
)

// Bounds of a summary.
const (
	MaxFindings = 20
	maxText     = 300 // bytes of a message or a path
)

// Report is the summary of a report.
type Report struct {
	Format string `json:"format"`          // junit or sarif
	Tool   string `json:"tool,omitempty"`  // of SARIF: the analysers that wrote it
	Tests  *Tests `json:"tests,omitempty"` // of JUnit
	// Levels counts findings: of SARIF by level (error, warning, note, none), without suppressed ones.
	Levels map[string]int `json:"levels,omitempty"`
	// Findings are the failed tests, or the findings of SARIF by level; at most 20 of them.
	Findings []Finding `json:"findings,omitempty"`
	Omitted  int       `json:"omitted,omitempty"` // findings that are not listed
	Problem  string    `json:"problem,omitempty"` // why not all of the file was read
}

// Tests counts the tests of a JUnit report.
type Tests struct {
	Total   int `json:"total"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"` // failed, could not be run, or passed only when run again
	Skipped int `json:"skipped"`
}

// Finding is a failed test, or one result of an analyser.
type Finding struct {
	Level   string `json:"level"` // error, warning, note or none
	Rule    string `json:"rule"`  // the rule of an analyser, or the name of a test
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message,omitempty"`
}

// Levels lists the levels of findings, the most severe first.
func Levels() []string { return []string{"error", "warning", "note", "none"} }

// Recognise returns the summary of a file, nil if it is not a report.
func Recognise(data []byte) *Report {
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	switch {
	case len(data) == 0:
		return nil
	case data[0] == '<' && isJUnit(data):
		return readJUnit(data)
	case data[0] == '{':
		return readSARIF(data)
	}
	return nil
}

// isJUnit reports whether the first element of a document is one of JUnit.
func isJUnit(data []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(data[:min(len(data), 64<<10)]))
	d.Strict = false
	for {
		t, err := d.RawToken()
		if err != nil && !strings.Contains(err.Error(), "encoding") { // the declaration may name another one
			return false
		}
		if first, ok := t.(xml.StartElement); ok {
			return first.Name.Local == "testsuites" || first.Name.Local == "testsuite"
		}
		if err != nil {
			end := bytes.Index(data, []byte("?>"))
			return end > 0 && isJUnit(bytes.TrimSpace(data[end+2:]))
		}
	}
}

func readJUnit(data []byte) *Report {
	var set results.Set
	r := &Report{Format: JUnit}
	if err := results.FormatJUnit.Parse(bytes.NewReader(data), "", &set); err != nil {
		r.Problem = cleanLine(err.Error())
	}
	c := set.Counts
	failed := c.Failed + c.Errored + c.Flaky
	r.Tests = &Tests{Total: c.Passed + failed + c.Skipped + c.NotRun, Passed: c.Passed, Failed: failed, Skipped: c.Skipped + c.NotRun}
	for _, f := range set.Failing[:min(len(set.Failing), MaxFindings)] {
		r.Findings = append(r.Findings, Finding{Level: "error", Rule: cleanLine(f.ID), Path: cleanLine(f.File), Line: max(0, f.Line), Message: cleanLine(f.Message)})
	}
	r.Omitted = failed - len(r.Findings)
	return r
}

// sarif is the part of a SARIF document that is read.
type sarif struct {
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name  string
				Rules []struct {
					ID                   string
					DefaultConfiguration struct{ Level string }
				}
			}
		}
		Results []result
	}
}

type result struct {
	RuleID       string
	RuleIndex    *int
	Rule         struct{ ID string }
	Kind, Level  string
	Message      struct{ Text, Markdown string }
	Suppressions []struct{ Status string }
	Locations    []struct {
		PhysicalLocation struct {
			ArtifactLocation struct{ URI string }
			Region           struct{ StartLine int }
		}
	}
}

func readSARIF(data []byte) *Report {
	var shape struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct{ Tool, Results json.RawMessage }
	}
	if json.Unmarshal(data, &shape) != nil || !strings.HasPrefix(shape.Version, "2.") || len(shape.Runs) == 0 ||
		!strings.Contains(strings.ToLower(shape.Schema), "sarif") && shape.Runs[0].Tool == nil {
		return nil
	}
	r, doc := &Report{Format: SARIF, Levels: map[string]int{}}, sarif{}
	if err := json.Unmarshal(data, &doc); err != nil { // a member of another type stays zero
		r.Problem = cleanLine(err.Error())
	}
	var found [4][]Finding // by level
	var tools []string
	for _, run := range doc.Runs {
		if name := cleanLine(run.Tool.Driver.Name); name != "" && len(tools) < 5 && !slices.Contains(tools, name) {
			tools = append(tools, name)
		}
		defaults := map[string]string{}
		for _, rule := range run.Tool.Driver.Rules {
			defaults[rule.ID] = rule.DefaultConfiguration.Level
		}
		for _, one := range run.Results {
			if one.isSuppressed() {
				continue
			}
			rule := cmp.Or(one.RuleID, one.Rule.ID)
			if i := one.RuleIndex; rule == "" && i != nil && *i >= 0 && *i < len(run.Tool.Driver.Rules) {
				rule = run.Tool.Driver.Rules[*i].ID
			}
			at, level := one.judgeLevel(defaults[rule])
			if r.Levels[level]++; len(found[at]) < MaxFindings {
				found[at] = append(found[at], one.newFinding(rule, level))
			} else {
				r.Omitted++
			}
		}
	}
	r.Tool, r.Findings = strings.Join(tools, ", "), slices.Concat(found[:]...)
	if over := len(r.Findings) - MaxFindings; over > 0 {
		r.Findings, r.Omitted = r.Findings[:MaxFindings], r.Omitted+over
	}
	return r
}

// isSuppressed reports whether a result was looked at and is to be ignored.
func (one *result) isSuppressed() bool {
	return len(one.Suppressions) > 0 && !slices.ContainsFunc(one.Suppressions, func(s struct{ Status string }) bool { return s.Status != "" && s.Status != "accepted" })
}

// judgeLevel returns the level of a result and its place among [Levels]: its own, else its rule's, else warning.
func (one *result) judgeLevel(ofRule string) (int, string) {
	level := cmp.Or(one.Level, ofRule, "warning")
	if one.Kind != "" && one.Kind != "fail" {
		level = "none"
	}
	if at := slices.Index(Levels(), level); at >= 0 {
		return at, level
	}
	return 1, "warning"
}

func (one *result) newFinding(rule, level string) Finding {
	f := Finding{Level: level, Rule: cleanLine(rule), Message: cleanLine(cmp.Or(one.Message.Text, one.Message.Markdown))}
	if len(one.Locations) > 0 {
		at := one.Locations[0].PhysicalLocation
		f.Path, f.Line = at.ArtifactLocation.URI, max(0, at.Region.StartLine)
		if path, err := url.PathUnescape(strings.TrimPrefix(f.Path, "file://")); err == nil {
			f.Path = path
		}
		f.Path = cleanLine(f.Path)
	}
	return f
}

// cleanLine returns a text of a report as one bounded line without control characters.
func cleanLine(s string) string {
	return text.Ends(strings.Join(strings.Fields(text.Clean(s[:min(len(s), 16<<10)])), " "), " … ", maxText)
}

// String returns the summary in a few words.
func (r *Report) String() string {
	var words []string
	if r.Tests != nil {
		words = append(words, fmt.Sprintf("%d passed", r.Tests.Passed))
		for _, n := range []struct {
			count int
			what  string
		}{{r.Tests.Failed, "failed"}, {r.Tests.Skipped, "skipped"}} {
			if n.count > 0 {
				words = append(words, fmt.Sprintf("%d %s", n.count, n.what))
			}
		}
	}
	for _, level := range Levels() {
		if n := r.Levels[level]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, level))
		}
	}
	if len(words) == 0 {
		words = []string{"no findings"}
	}
	if r.Problem != "" {
		words = append(words, "incomplete")
	}
	return r.Format + ": " + strings.Join(words, ", ")
}

// String returns a finding as compilers print theirs.
func (f Finding) String() string {
	at := f.Path
	if at != "" && f.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.Line)
	}
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s: %s: %s", at, f.Level, f.Rule, f.Message)
}
