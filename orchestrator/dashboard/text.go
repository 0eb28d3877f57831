package dashboard

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// mark shows a state by its shape, its colour and its name.
type mark struct{ Sign, Class, Name string }

var runMarks = map[lattice.RunStatus]mark{
	lattice.Pending:               {"○", "idle", "pending"},
	lattice.Running:               {"▸", "active", "running"},
	lattice.Waiting:               {"◆", "attention", "waiting"},
	lattice.Blocked:               {"◆", "attention", "blocked"},
	lattice.BlockedWaitingForUser: {"◆", "attention", "asks you"},
	lattice.Succeeded:             {"✓", "good", "succeeded"},
	lattice.Failed:                {"✗", "bad", "failed"},
	lattice.Canceled:              {"⊘", "idle", "canceled"},
}

var stepMarks = map[timeline.StepState]mark{
	timeline.Running: {"▸", "active", "running"},
	timeline.Done:    {"✓", "good", "done"},
	timeline.Failed:  {"✗", "bad", "failed"},
	timeline.Waiting: {"◆", "attention", "waiting"},
	timeline.Dropped: {"⊘", "idle", "given up"},
}

// markOf returns the mark of a status, of a run, a step, an intent or another thing that has one.
func markOf(status any) mark {
	switch s := status.(type) {
	case lattice.RunStatus:
		if m, ok := runMarks[s]; ok {
			return m
		}
	case intent.Status:
		switch s {
		case intent.Gated, intent.Waiting:
			return mark{"◆", "attention", string(s)}
		case intent.Succeeded:
			return mark{"✓", "good", string(s)}
		case intent.Failed:
			return mark{"✗", "bad", string(s)}
		case intent.Executing:
			return mark{"▸", "active", string(s)}
		}
	case proposal.Status:
		switch s {
		case proposal.Verified:
			return mark{"✓", "good", "accepted"}
		case proposal.Rejected:
			return mark{"✗", "idle", "rejected"}
		}
		return mark{"◆", "attention", "pending"}
	case loop.Outcome:
		switch {
		case s == loop.Running:
			return mark{"▸", "active", string(s)}
		case s.ExitCode() == 0:
			return mark{"✓", "good", string(s)}
		case s.ExitCode() == protocol.ExitWaiting:
			return mark{"◆", "attention", string(s)}
		case s.ExitCode() == protocol.ExitCancelled:
			return mark{"⊘", "idle", string(s)}
		}
		return mark{"✗", "bad", string(s)}
	case timeline.StepState:
		if m, ok := stepMarks[s]; ok {
			return m
		}
	case requestStatus:
		switch s {
		case worker.Claimed:
			return mark{"▸", "active", string(s)}
		case worker.Completed:
			return mark{"✓", "good", string(s)}
		case worker.Failed:
			return mark{"✗", "bad", string(s)}
		}
	case string:
		if s == "running" {
			return mark{"▸", "active", s}
		}
	}
	return mark{"○", "idle", fmt.Sprint(status)}
}

// requestStatus is the status of a request for a worker.
type requestStatus string

// parseInstant returns an instant of RFC 3339, nil if the text is not one.
func parseInstant(text string) any {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return at
}

// listFunctions returns the functions of templates.
func listFunctions() template.FuncMap {
	return template.FuncMap{
		"mark":     markOf,
		"duration": shortDuration,
		"clock":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"day":      func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
		"ago":      func(t time.Time) string { return cli.Age(t) + " ago" },
		"line":     cli.Clean,
		"text":     visibleText,
		"json":     indentJSON,
		"short":    func(id string) string { return text.Cut(id, 14) },
		"seconds":  func(s float64) string { return shortDuration(time.Duration(s * float64(time.Second))) },
		"millis":   func(ms int64) string { return shortDuration(time.Duration(ms) * time.Millisecond) },
		"step":     func(state string) timeline.StepState { return timeline.StepState(state) },
		"short7":   func(sum string) string { return text.Cut(sum, 7) },
		"since":    parseInstant,
		"request":  func(status string) requestStatus { return requestStatus(status) },
		"markdown": renderMarkdown,
		"digest":   func(sum string) string { return text.Cut(sum, 12) },
		"lines":    colourLines,
		"dollars":  func(usd float64) string { return fmt.Sprintf("$%.4f", usd) },
		"limit":    timeline.DescribeLimit,
		"newkey":   func() string { return strings.ToLower(rand.Text()[:16]) },
		"ask": func(v *Visitor, f waitForm, back string) any {
			return struct {
				Visitor *Visitor
				Form    waitForm
				Back    string
			}{v, f, back}
		},
		"at": func(f frame, s stop) any {
			return struct {
				Visitor *Visitor
				Run     api.RunView
				Stop    stop
			}{f.Visitor, f.Page.(runPage).RunView, s}
		},
		"act": func(v *Visitor, a api.NotedAction, back string) any {
			return struct {
				Visitor *Visitor
				Action  api.NotedAction
				Back    string
			}{v, a, back}
		},
		"plan": func(v *Visitor, i intent.State) any {
			return struct {
				Visitor *Visitor
				Intent  intent.State
			}{v, i}
		},
		"offer": func(v *Visitor, c proposal.State) any {
			return struct {
				Visitor *Visitor
				Change  proposal.State
			}{v, c}
		},
	}
}

// shortDuration writes a duration for people, with two units at most.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours()/24), int(d.Hours())%24)
}

// visibleText returns text of several lines in which characters that a terminal obeys, or that turn the order around, are
// left out.
func visibleText(text string) string {
	var b bytes.Buffer
	_, _ = cli.Sanitize(&b).Write([]byte(text)) // a buffer takes all
	return b.String()
}

// indentJSON returns a value as JSON for people.
func indentJSON(v any) string {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return err.Error()
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return visibleText(string(raw))
	}
	return cli.Harmless(b.String())
}

// coloured is a line of a patch with the class that colours it.
type coloured struct{ Class, Text string }

// maxLines bounds the lines of a patch that a page shows.
const maxLines = 1200

// cutPatch returns a patch with at most so many lines.
func cutPatch(p difference.Patch, most int) difference.Patch {
	n := 0
	for at := range len(p.Text) {
		if p.Text[at] != '\n' {
			continue
		}
		if n++; n >= most {
			p.Cut = p.Cut || at+1 < len(p.Text)
			p.Text = p.Text[:at+1]
			break
		}
	}
	if most <= 0 {
		p.Text, p.Cut = "", true
	}
	return p
}

// colourLines splits a patch into lines.
func colourLines(patch string) (lines []coloured) {
	for line := range strings.Lines(patch) {
		class := ""
		switch {
		case strings.HasPrefix(line, "diff "):
			class = "file"
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "index "):
			class = "meta"
		case strings.HasPrefix(line, "@@"):
			class = "hunk"
		case strings.HasPrefix(line, "+"):
			class = "plus"
		case strings.HasPrefix(line, "-"):
			class = "minus"
		}
		if len(lines) == maxLines {
			return append(lines, coloured{"meta", "… the change is longer; lattice show --patch prints all of it"})
		}
		lines = append(lines, coloured{class, visibleText(strings.TrimSuffix(line, "\n"))})
	}
	return lines
}
