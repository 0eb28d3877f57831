package results

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

type rspecExample struct {
	ID              string  `json:"id"`
	Description     string  `json:"description"`
	FullDescription string  `json:"full_description"`
	Status          string  `json:"status"`
	FilePath        string  `json:"file_path"`
	LineNumber      int     `json:"line_number"`
	RunTime         float64 `json:"run_time"`
	Exception       struct {
		Class     string   `json:"class"`
		Message   string   `json:"message"`
		Backtrace []string `json:"backtrace"`
	} `json:"exception"`
}

// parseRSpec reads the report of rspec --format json. An error outside of the examples, such as a file that does not load, is
// told by a count and a message only.
func parseRSpec(r io.Reader, s *Set) error {
	d := json.NewDecoder(r)
	places := newPlaces()
	var messages []string
	var summary struct {
		Outside int `json:"errors_outside_of_examples_count"`
	}
	err := readObject(d, func(name string) (bool, error) {
		switch name {
		case "examples":
			return true, array(d, func(e rspecExample) { e.addTo(s, places) })
		case "messages":
			return true, array(d, func(m string) {
				if len(messages) < MaxLines {
					messages = append(messages, Clip(m, MaxDetail))
				}
			})
		case "summary":
			return true, readValue(d, &summary)
		}
		return false, nil
	})
	if summary.Outside > 0 {
		text := strings.TrimSpace(Clean(strings.Join(messages, "\n")))
		c := Case{ID: "outside of examples", Name: "outside of examples", Status: Errored, Kind: Setup, Package: true, Message: firstParagraph(text), Detail: text}
		c.File, c.Line = places.rubyFrame(text)
		s.Add(c)
	}
	return err
}

func (e *rspecExample) addTo(s *Set, places *places) {
	file := strings.TrimPrefix(e.FilePath, "./")
	suite := strings.TrimSpace(strings.TrimSuffix(e.FullDescription, e.Description))
	c := Case{ID: strings.TrimPrefix(e.ID, "./"), Name: e.FullDescription, Suite: suite, File: file, Line: e.LineNumber, Duration: fromSeconds(e.RunTime)}
	c.Name = cmp.Or(c.Name, e.Description)
	switch e.Status {
	case "passed":
		c.Status = Passed
	case "failed":
		c.Status = Failed
		c.Message = strings.TrimSpace(Clean(e.Exception.Message))
		own := slices.DeleteFunc(e.Exception.Backtrace, func(frame string) bool {
			return strings.Contains(frame, "/gems/") || strings.Contains(frame, "/bin/") || strings.Contains(frame, "/lib/ruby/")
		})
		c.Detail = e.Exception.Class + "\n" + e.Exception.Message + "\n" + strings.Join(own, "\n")
		for _, frame := range own {
			if f, line := places.rubyFrame(frame); strings.HasSuffix(f, file) {
				c.Line = line
				break
			}
		}
	default:
		c.Status = Skipped
	}
	s.Add(c)
}
