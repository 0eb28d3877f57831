package results

import (
	"encoding/json"
	"io"
	"strings"
)

// jestFile is the report of jest --json and of vitest's json reporter about one test file.
type jestFile struct {
	Name             string `json:"name"`
	Status           string `json:"status"`
	Message          string `json:"message"`
	AssertionResults []struct {
		AncestorTitles  []string   `json:"ancestorTitles"`
		FullName        string     `json:"fullName"`
		Title           string     `json:"title"`
		Status          string     `json:"status"`
		Duration        float64    `json:"duration"`
		FailureMessages []string   `json:"failureMessages"`
		RetryReasons    []string   `json:"retryReasons"`
		Location        *jsonPlace `json:"location"`
	} `json:"assertionResults"`
}

type jsonPlace struct {
	Line int `json:"line"`
}

func parseJest(r io.Reader, s *Set) error {
	d := json.NewDecoder(r)
	places := newPlaces()
	return readObject(d, func(name string) (bool, error) {
		if name != "testResults" {
			return false, nil
		}
		return true, array(d, func(f jestFile) { f.addTo(s, places) })
	})
}

func (f *jestFile) addTo(s *Set, places *places) {
	told := false // whether a failed test explains why the file failed
	for _, a := range f.AssertionResults {
		told = told || a.Status == "failed"
		c := Case{
			ID: f.Name + " > " + strings.TrimSpace(a.FullName), Name: strings.Join(append(a.AncestorTitles, a.Title), " > "),
			Suite: f.Name, File: f.Name, Duration: fromMillis(a.Duration),
		}
		if a.Location != nil {
			c.Line = a.Location.Line
		}
		switch a.Status {
		case "passed":
			c.Status = Passed
			if len(a.RetryReasons) > 0 {
				c.Status = Flaky
				a.FailureMessages = a.RetryReasons
			}
		case "failed":
			c.Status = Failed
		default: // pending, skipped, todo, disabled, focused
			c.Status = Skipped
		}
		if c.Failing() {
			c.Detail = ownFrames(Clean(strings.Join(a.FailureMessages, "\n\n")), "at ")
			c.Message = thrownText(c.Detail)
			if strings.Contains(c.Message, "imed out in") || strings.Contains(c.Message, "xceeded timeout") {
				c.Kind = Timeout
			}
			if line := places.lineIn(c.Detail, f.Name); line > 0 { // where it failed, else where it begins
				c.Line = line
			}
		}
		s.Add(c)
	}
	if !told && f.Status == "failed" { // it could not be loaded, holds no test, or broke after its tests
		message := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(Clean(f.Message)), "● Test suite failed to run"))
		if _, details, ok := strings.Cut(message, "\n    Details:\n"); ok { // before that is jest's advice
			message = strings.TrimSpace(details)
		}
		message = ownFrames(message, "at ")
		c := Case{
			ID: f.Name, Name: f.Name, Suite: f.Name, File: f.Name, Status: Errored, Kind: Setup, Package: true,
			Message: thrownText(message), Detail: message, Line: places.lineIn(message, f.Name),
		}
		if strings.Contains(message, "SyntaxError") || strings.Contains(message, "Transform failed") || strings.Contains(message, "Unexpected token") {
			c.Kind = Build
		}
		s.Add(c)
	}
}
