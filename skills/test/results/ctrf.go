package results

import (
	"encoding/json"
	"io"
	"strings"
)

// CTRFTest is a test in a report in the Common Test Report Format.
type CTRFTest struct {
	Name      string          `json:"name"`
	Status    string          `json:"status"`
	Duration  float64         `json:"duration"`
	Message   string          `json:"message,omitempty"`
	Trace     string          `json:"trace,omitempty"`
	FilePath  string          `json:"filePath,omitempty"`
	Line      int             `json:"line,omitempty"`
	Suite     json.RawMessage `json:"suite,omitempty"` // an array of names; a string in old reports
	RawStatus string          `json:"rawStatus,omitempty"`
	Flaky     bool            `json:"flaky,omitempty"`
}

// parseCTRF reads the Common Test Report Format.
func parseCTRF(r io.Reader, s *Set) error {
	d := json.NewDecoder(r)
	return readObject(d, func(name string) (bool, error) {
		if name != "results" {
			return false, nil
		}
		return true, readObject(d, func(name string) (bool, error) {
			if name != "tests" {
				return false, nil
			}
			return true, array(d, func(t CTRFTest) { s.Add(t.asCase()) })
		})
	})
}

func (t *CTRFTest) asCase() Case {
	c := Case{Name: t.Name, File: t.FilePath, Line: t.Line, Duration: fromMillis(t.Duration), Message: firstOf(t.Message, firstParagraph(t.Trace)), Detail: firstOf(t.Trace, t.Message)}
	var path []string
	if json.Unmarshal(t.Suite, &path) == nil {
		c.Suite = strings.Join(path, " > ")
	} else {
		_ = json.Unmarshal(t.Suite, &c.Suite) // another type names no suite
	}
	switch {
	case t.Status == "passed" && t.Flaky:
		c.Status = Flaky
	case t.Status == "passed":
		c.Status = Passed
	case t.Status == "failed":
		c.Status = Failed
	case t.Status == "other" && t.RawStatus == string(Errored):
		c.Status, c.Kind = Errored, Setup
	case t.Status == "other" && t.RawStatus == string(NotRun):
		c.Status = NotRun
	default:
		c.Status = Skipped
	}
	return c
}
