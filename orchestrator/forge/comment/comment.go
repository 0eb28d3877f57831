// Package comment reads the commands that people give lattice in comments on issues and pull requests. Start with [Parse], which finds
// them in a text; [Fill] reads an answer, and [Ticked] a checkbox that a person ticked. The package is pure: whether
// the person may do it is decided with [Least] and the person's role, by the caller.
//
//	/lattice approve 3f2a9c1e77b0
//
// A command counts only at the start of a line that is shown as text: not in code, in a quotation, or in HTML. A text that
// a person quotes, pastes as code or hides therefore commands nothing. Where Markdown leaves room for doubt, the line is not
// a command.
package comment

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/spritekit/text"
)

// Verb is the first word of a command.
type Verb string

const (
	Plan     Verb = "plan"
	Research Verb = "research"
	Approve  Verb = "approve"
	Reject   Verb = "reject"
	Answer   Verb = "answer"
	Status   Verb = "status"
	Cancel   Verb = "cancel"
	Rerun    Verb = "rerun"
	Hold     Verb = "hold"
	Help     Verb = "help"
)

// prefix begins each command.
const prefix = "/lattice"

// maxCommands bounds the commands of one comment.
const maxCommands = 10

// verbs describes the commands, in the order of their help.
var verbs = []struct {
	Verb  Verb
	Usage string
	Does  string
	Least forge.Role
}{
	{Plan, "plan [DOCUMENT]", "let an agent answer the issue with questions or a plan, or divide a document of the repository into issues", forge.Write},
	{Research, "research QUESTION", "answer a question with notes from pages of the web, each with its source; the question may go on in the next lines", forge.Write},
	{Approve, "approve DIGEST", "approve the request or the plan with this digest", forge.Write},
	{Reject, "reject [DIGEST] [REASON]", "reject the open request or plan; of several the one with this digest", forge.Write},
	{Answer, "answer TEXT", "answer the open question; several inputs go on the next lines, as name: value", forge.Write},
	{Status, "status", "show the state of the run", forge.Read},
	{Cancel, "cancel [REASON]", "cancel the run", forge.Write},
	{Rerun, "rerun", "continue a run that was held; when the run has ended, do its work again", forge.Write},
	{Hold, "hold", "stop the run; rerun continues it", forge.Write},
	{Help, "help", "list the commands", forge.Read},
}

// IsDigest reports whether a word may be a digest, or the beginning of one.
func IsDigest(word string) bool { return digestPattern().MatchString(word) }

// Least returns the least role that a person needs for a command.
func Least(v Verb) forge.Role {
	for _, d := range verbs {
		if d.Verb == v {
			return d.Least
		}
	}
	return forge.Admin
}

// HelpText lists the commands, in Markdown.
func HelpText() string {
	var b strings.Builder
	b.WriteString("A comment commands lattice with a line of its own:\n\n")
	for _, d := range verbs {
		fmt.Fprintf(&b, "- `%s %s`: %s (role: %s)\n", prefix, d.Usage, d.Does, d.Least)
	}
	return b.String()
}

// Command is a line that begins with /lattice.
type Command struct {
	Verb Verb `json:"verb"`
	// Text is the rest of the line. For Answer and Research it is the following lines as well, up to the next command.
	Text string `json:"text,omitempty"`
	Line int    `json:"line"` // from 1
	// Problem says why the command cannot be carried out.
	Problem string `json:"problem,omitempty"`
}

// Parse returns the commands in the text of a comment.
func Parse(body string) []Command {
	lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	var found []Command
	var below []string // lines that belong to the last command
	end := func() {
		if len(below) > 0 {
			found[len(found)-1].Text += "\n" + strings.Join(below, "\n")
		}
		below = nil
	}
	for i, shown := range shownLines(lines) {
		rest, ok := strings.CutPrefix(lines[i], prefix)
		if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			ok = false
		}
		switch {
		case ok && shown && len(found) == maxCommands:
			end()
			found = append(found[:maxCommands-1], Command{Line: i + 1, Problem: fmt.Sprintf("a comment has at most %d commands", maxCommands)})
			return checkAll(found)
		case ok && shown:
			end()
			found = append(found, parseLine(rest, i+1))
		case len(found) > 0 && (found[len(found)-1].Verb == Answer || found[len(found)-1].Verb == Research):
			below = append(below, lines[i])
		}
	}
	end()
	return checkAll(found)
}

// checkAll trims the texts of the commands and sets their problems. All lines must have been read.
func checkAll(found []Command) []Command {
	for i := range found {
		found[i].Text = strings.TrimSpace(found[i].Text)
		found[i].check()
	}
	return found
}

// parseLine reads the rest of a line behind /lattice.
func parseLine(rest string, line int) Command {
	word, args := strings.TrimSpace(rest), ""
	if at := strings.IndexAny(word, " \t"); at >= 0 {
		word, args = word[:at], word[at+1:]
	}
	c := Command{Text: args, Line: line}
	for _, d := range verbs {
		if strings.EqualFold(word, string(d.Verb)) {
			c.Verb = d.Verb
			return c
		}
	}
	if word == "" {
		c.Verb = Help
		return c
	}
	c.Problem = fmt.Sprintf("there is no such command; %s help lists them", prefix)
	for _, d := range verbs {
		if len(word) < 20 && manifests.Distance(strings.ToLower(word), string(d.Verb)) <= 2 {
			c.Problem = fmt.Sprintf("there is no such command; did you mean %s %s?", prefix, d.Verb)
		}
	}
	return c
}

var digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{7,64}$`) })

// check sets the problem of a command whose text is wrong.
func (c *Command) check() {
	switch {
	case c.Problem != "":
	case text.Visible(c.Text) != c.Text:
		c.Problem = "the command holds characters that are not shown, or that turn text around"
	case c.Verb == Approve && !IsDigest(c.Text):
		c.Problem = fmt.Sprintf("an approval names the digest of what it approves: %s approve DIGEST", prefix)
	case c.Verb == Answer && c.Text == "":
		c.Problem = fmt.Sprintf("the answer is empty: %s answer TEXT", prefix)
	case c.Verb == Research && c.Text == "":
		c.Problem = fmt.Sprintf("the question is missing: %s research QUESTION", prefix)
	case c.Verb == Plan && c.Text != "" && (!filepath.IsLocal(c.Text) || strings.ContainsAny(c.Text, " \t\\")):
		c.Problem = fmt.Sprintf("a plan is of the issue, or of one document, a path in the repository without blanks: %s plan docs/seed.md", prefix)
	case c.Text != "" && slices.Contains([]Verb{Status, Rerun, Hold, Help}, c.Verb):
		c.Problem = fmt.Sprintf("%s takes nothing behind it", c.Verb)
	}
}
