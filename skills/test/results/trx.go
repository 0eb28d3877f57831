package results

import (
	"io"
	"strings"
	"time"
)

// parseTRX reads the report of dotnet test --logger trx: results first, then the definitions that name the classes.
func parseTRX(r io.Reader, s *Set) error {
	w := trxWalk{places: newPlaces(), class: map[string]string{}}
	err := walkXML(r, &w)
	for _, c := range w.cases {
		if class := w.class[c.ID]; class != "" {
			c.Suite = class
		}
		c.ID = c.Suite + "." + strings.TrimPrefix(c.Name, c.Suite+".")
		if c.Suite == "" {
			c.ID = c.Name
		}
		s.Add(c)
	}
	return err
}

type trxWalk struct {
	places *places
	cases  []Case            // ID holds the id of the definition
	class  map[string]string // of a definition
	open   bool
	c      Case
	def    string
	inside string
	body   limited
}

func (w *trxWalk) startElement(name string, attr func(string) string) {
	switch name {
	case "UnitTestResult":
		w.open = true
		w.c = Case{ID: attr("testId"), Name: attr("testName"), Duration: parseClock(attr("duration"))}
		switch attr("outcome") {
		case "Passed", "PassedButRunAborted", "Warning":
			w.c.Status = Passed
		case "Failed":
			w.c.Status = Failed
		case "Timeout":
			w.c.Status, w.c.Kind = Failed, Timeout
		case "Error", "Aborted", "Disconnected":
			w.c.Status, w.c.Kind = Errored, Setup
		default: // NotExecuted, Inconclusive, NotRunnable, Pending
			w.c.Status = Skipped
		}
	case "UnitTest":
		w.def = attr("id")
	case "TestMethod":
		if len(w.class) < maxPassed {
			w.class[w.def], _, _ = strings.Cut(attr("className"), ",") // an assembly may follow
		}
	case "Message", "StackTrace":
		w.inside, w.body = name, limited{max: 64 << 10}
	}
}

func (w *trxWalk) addText(data []byte) {
	if w.inside != "" {
		w.body.addBytes(data)
	}
}

func (w *trxWalk) endElement(name string) {
	if name == w.inside && w.open {
		if text := strings.TrimSpace(w.body.joinEnds()); name == "Message" && w.c.Message == "" {
			w.c.Message = text
		} else if name == "StackTrace" {
			w.c.Detail = text
			w.c.File, w.c.Line = w.places.dotnetFrame(text)
		}
	}
	if name == w.inside {
		w.inside = ""
	}
	if name != "UnitTestResult" || !w.open {
		return
	}
	w.open = false
	w.c.Detail = strings.TrimSpace(w.c.Message + "\n" + w.c.Detail)
	w.c.Message, w.c.Detail = Clip(w.c.Message, MaxMessage), Clip(w.c.Detail, 2*MaxDetail)
	if len(w.cases) < maxPassed+maxFailing {
		w.cases = append(w.cases, w.c)
	}
}

// parseClock reads hours:minutes:seconds.
func parseClock(text string) time.Duration {
	t, err := time.Parse("15:04:05.999999999", text)
	if err != nil {
		return 0
	}
	return t.Sub(t.Truncate(24 * time.Hour))
}
