package results

import (
	"encoding/json"
	"io"
	"strings"
)

type mochaTest struct {
	Title        string  `json:"title"`
	FullTitle    string  `json:"fullTitle"`
	File         string  `json:"file"`
	Duration     float64 `json:"duration"`
	CurrentRetry int     `json:"currentRetry"`
	Err          struct {
		Message string `json:"message"`
		Stack   string `json:"stack"`
		Code    string `json:"code"`
	} `json:"err"`
}

// parseMocha reads the report of mocha --reporter json. Its array tests holds all of them, failures, passes and pending hold
// them again; a hook that failed is in failures only.
func parseMocha(r io.Reader, s *Set) error {
	d := json.NewDecoder(r)
	places := newPlaces()
	return readObject(d, func(name string) (bool, error) {
		switch name {
		case "failures":
			return true, array(d, func(t mochaTest) { s.Add(t.newFailure(places)) })
		case "passes":
			return true, array(d, func(t mochaTest) {
				c := t.newCase(Passed)
				if t.CurrentRetry > 0 {
					c.Status, c.Message = Flaky, "passed after a retry"
				}
				s.Add(c)
			})
		case "pending":
			return true, array(d, func(t mochaTest) { s.Add(t.newCase(Skipped)) })
		}
		return false, nil
	})
}

func (t *mochaTest) newCase(status Status) Case {
	full := strings.TrimSpace(t.FullTitle)
	suite := strings.TrimSpace(strings.TrimSuffix(full, t.Title))
	return Case{ID: t.File + " > " + full, Name: t.Title, Suite: suite, File: t.File, Status: status, Duration: fromMillis(t.Duration)}
}

func (t *mochaTest) newFailure(places *places) Case {
	c := t.newCase(Failed)
	c.Detail = ownFrames(Clean(firstOf(t.Err.Stack, t.Err.Message)), "at ")
	c.Message = thrownText(Clean(firstOf(t.Err.Message, t.Err.Stack)))
	c.Line = places.lineIn(c.Detail, t.File)
	switch {
	case t.Err.Code == "ERR_MOCHA_TIMEOUT":
		c.Kind = Timeout
	case strings.HasPrefix(t.Title, `"before `) || strings.HasPrefix(t.Title, `"after `):
		c.Status, c.Kind = Errored, Setup
	}
	return c
}
