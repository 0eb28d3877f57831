package loop

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// Bounds of a report in bytes, those of a pull request in package protocol.
const (
	maxTitle = 256
	maxBody  = 64 << 10
)

// Report describes the result of a loop that is done, as title and body of a pull request: the agent's words, then the facts.
// The agent's words are text for people. They fit the bounds of a pull request.
func Report(m Memory, tasks []Task, said *Pull, divergence string) Pull {
	last := cmp.Or(m.Last(), &Entry{})
	if said == nil {
		said = &Pull{}
	}
	summary, _, _ := strings.Cut(strings.TrimSpace(last.Summary), "\n")
	title := cmp.Or(oneLine(said.Title), oneLine(summary), "Finish the tasks")
	var b strings.Builder
	b.WriteString("## Tasks\n\n")
	for _, t := range tasks {
		fmt.Fprintf(&b, "- [x] %s\n", cutText(nameOf(t), 300))
	}
	fmt.Fprintf(&b, "\n## Verification\n\nCommit %s is green. The statement is %s.\n", last.Commit, last.Statement)
	fmt.Fprintf(&b, "\nIterations: %d. Cost: %.2f US dollars. Work: %d seconds.\n", m.Iterations, m.CostUSD, m.DurationMS/1000)
	if text := strings.TrimSpace(divergence); text != "" {
		fmt.Fprintf(&b, "\n## Differences from the spec\n\n%s\n", text)
	}
	body := strings.TrimSpace(said.Body)
	if body == "" {
		body = strings.TrimSpace(last.Summary)
	}
	facts := cutBytes(b.String(), maxBody/2)
	return Pull{Title: cutBytes(title, maxTitle), Body: strings.TrimSpace(cutBytes(body, maxBody/2-2) + "\n\n" + facts)}
}

// oneLine returns a text as one line without control characters.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// cutBytes returns at most n bytes of text, which stays valid UTF-8.
func cutBytes(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "")
}
