// Package presence writes the comments with which a run shows itself at a code host: [Status], which is updated in place,
// and [Question], one for each wait, which tells how to answer. The package is pure.
//
// Much of the text was written in a sprite and is hostile. It is put into code, where the code host shows it as it is: it
// mentions no person, links to nothing, loads no image, ticks no box and closes no issue.
package presence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/text"
)

// Texts of a run are cut to so many bytes; a comment of GitHub has at most 65,536 characters.
const (
	maxText = 24 << 10
	maxAll  = 48 << 10 // of the texts of a question together, with perText for each
	perText = 256
	maxForm = 8 << 10 // of the commands that answer
	maxSaid = 2 << 10
	maxLine = 300
	maxRows = 40
)

// Run is the part of a run that a status comment shows.
type Run struct {
	ID, Flow string
	Status   lattice.RunStatus
	Steps    []Step
	Latest   string // the last message
	Review   string // the commit whose review it waits for
	Failure  string
	Asks     []Proposal // that wait for a person besides it
}

// Step is a step of a run. Took is 0 while it goes on.
type Step struct {
	Name, State string
	Took        time.Duration
}

// Status returns the status comment of a run.
func Status(r Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**lattice**: the run %s (%s) %s.\n", Inline(r.ID), Inline(r.Flow), verbs[r.Status])
	steps := r.Steps
	if left := len(steps) - maxRows; left > 0 {
		fmt.Fprintf(&b, "\n%d earlier steps are not shown.\n", left)
		steps = steps[left:]
	}
	if len(steps) > 0 {
		b.WriteString("\n| step | state | time |\n|---|---|---|\n")
	}
	for _, s := range steps {
		took := ""
		if s.Took > 0 {
			took = s.Took.Round(time.Second).String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", formatCell(s.Name), s.State, took)
	}
	if r.Review != "" {
		fmt.Fprintf(&b, "\nIt waits for a review of %s: approve the pull request, or ask for changes.\n", Inline(fmt.Sprintf("%.12s", r.Review)))
	}
	if r.Latest != "" {
		fmt.Fprintf(&b, "\nLatest: %s\n", Inline(r.Latest))
	}
	if r.Failure != "" {
		b.WriteString("\nIt failed:\n\n" + Block(r.Failure))
	}
	for _, p := range r.Asks {
		if !p.Fits() {
			continue // its comment tells what to do
		}
		fmt.Fprintf(&b, "\nNext: a person decides whether lattice shall %s.\n\n%s", p.Does, Block(p.commands()))
	}
	return b.String()
}

// Verb says in which state a run of a status is.
func Verb(s lattice.RunStatus) string { return verbs[s] }

// verbs describes a run of each status.
var verbs = map[lattice.RunStatus]string{
	lattice.Pending: "begins", lattice.Running: "works", lattice.Waiting: "waits for a person", lattice.Blocked: "waits for a person",
	lattice.BlockedWaitingForUser: "waits for a person", lattice.Succeeded: "has succeeded", lattice.Failed: "has failed", lattice.Canceled: "was canceled",
}

// LabelPrefix begins the labels that show the state of a run.
const LabelPrefix = "lattice:"

// Label returns the label of a run of a status.
func Label(s lattice.RunStatus) string {
	switch s {
	case lattice.Succeeded:
		return LabelPrefix + "done"
	case lattice.Failed, lattice.Canceled:
		return LabelPrefix + string(s)
	case lattice.Waiting, lattice.Blocked, lattice.BlockedWaitingForUser:
		return LabelPrefix + "waiting"
	}
	return LabelPrefix + "running"
}

// Check returns the state of the check that shows a run of a status.
func Check(s lattice.RunStatus) forge.CheckState {
	switch s {
	case lattice.Succeeded:
		return forge.CheckSuccess
	case lattice.Failed:
		return forge.CheckFailure
	case lattice.Canceled:
		return forge.CheckError
	}
	return forge.CheckPending
}

// Digest returns the digest of all that a wait shows, which an approval names. A wait that changes gets another one.
func Digest(run string, w lattice.Wait) string {
	raw, err := json.Marshal(w)
	if err != nil {
		return "" // it was decoded from JSON; no approval names the empty digest
	}
	sum := sha256.Sum256([]byte(run + "\x00" + string(raw)))
	return hex.EncodeToString(sum[:])[:24]
}

// textsOf returns the texts of a wait that its comment shows as blocks, in their order.
func textsOf(w lattice.Wait) (all []string) {
	all = append(all, w.Prompt)
	if w.Action != nil {
		all = append(all, indentJSON(w.Action.Parameters), describeBinding(w.Action.Binding))
	}
	for _, c := range w.Calls {
		all = append(all, indentJSON(c.Input))
	}
	return append(all, indentJSON(w.Details), strings.Join(w.Choices, "\n"))
}

// Fits reports whether the comment about a wait shows it as a whole.
func Fits(w lattice.Wait) bool {
	sum := 0
	for _, s := range textsOf(w) {
		n := len(visibleText(s))
		if n > 0 {
			sum += n + perText
		}
		if n > maxText || sum > maxAll {
			return false
		}
	}
	return true
}

// Question returns the comment about an open wait of a run. One that is too long for a comment shows its beginning, and cannot be approved
// there.
func Question(run string, w lattice.Wait) string {
	var b strings.Builder
	left := maxAll
	block := func(s string) string {
		s = text.Head(visibleText(s), min(left, maxText))
		if s != "" {
			left = max(0, left-len(s)-perText)
		}
		return Block(s)
	}
	fmt.Fprintf(&b, "**lattice**: the run %s waits for a person.\n", Inline(run))
	if w.Prompt != "" {
		b.WriteString("\n" + block(w.Prompt))
	}
	if w.Reason != "" && w.Reason != w.Prompt {
		fmt.Fprintf(&b, "\nReason: %s\n", Inline(w.Reason))
	}
	if a := w.Action; a != nil {
		fmt.Fprintf(&b, "\nIt asks for %s with the parameters\n\n%s", Inline(a.Name), block(indentJSON(a.Parameters)))
		if len(a.Binding) > 0 {
			b.WriteString("\nwhich is about\n\n" + block(describeBinding(a.Binding)))
		}
	}
	for i, c := range w.Calls {
		if left == 0 {
			fmt.Fprintf(&b, "\nThe inputs of %d calls are not shown.\n", len(w.Calls)-i)
			break
		}
		fmt.Fprintf(&b, "\nAn approval allows the call of %s with the input\n\n%s", Inline(c.Skill), block(indentJSON(c.Input)))
	}
	if len(w.Details) > 0 {
		b.WriteString("\n" + block(indentJSON(w.Details)))
	}
	if len(w.Choices) > 0 {
		b.WriteString("\nOne of:\n\n" + block(strings.Join(w.Choices, "\n")))
	}
	if w.YesOrNo() && !Fits(w) {
		b.WriteString("\n" + tooLong(fmt.Sprintf("lattice show %s --json\nlattice approve %[1]s --wait %s\nlattice reject %[1]s --wait %[2]s", run, w.ID)))
		return b.String()
	}
	b.WriteString("\n" + howToAnswer(run, w))
	return b.String()
}

// tooLong tells with which commands people decide about a request that a comment does not show as a whole.
func tooLong(commands string) string {
	return "It is longer than a comment shows. Where lattice runs, this shows and decides it:\n\n" + Block(commands)
}

// howToAnswer tells with which commands a wait can be answered.
func howToAnswer(run string, w lattice.Wait) string {
	var b strings.Builder
	if w.YesOrNo() {
		approve := string(comment.Approve) + " " + Digest(run, w)
		fmt.Fprintf(&b, "%s\n%s\n", comment.Box("approve", approve), comment.Box("reject", string(comment.Reject)))
		fmt.Fprintf(&b, "\nTick a box, or answer with a comment:\n\n%s", Block("/lattice "+approve+"\n/lattice reject REASON"))
		return b.String()
	}
	names := slices.Sorted(maps.Keys(w.Expected))
	if len(names) == 1 {
		fmt.Fprintf(&b, "Answer with a comment; it takes %s:\n\n%s", Inline(w.Expected[names[0]]), Block("/lattice answer TEXT"))
	} else {
		lines := []string{"/lattice answer"}
		for _, name := range names {
			note := w.Expected[name]
			if slices.Contains(w.Optional, name) {
				note += ", optional"
			}
			lines = append(lines, fmt.Sprintf("%s: (%s)", name, note))
		}
		b.WriteString("Answer with a comment:\n\n" + Block(text.Head(strings.Join(lines, "\n"), maxForm)))
	}
	if w.CanReject() {
		fmt.Fprintf(&b, "\nor reject it:\n\n%s", Block("/lattice reject REASON"))
	}
	return b.String()
}

// Proposal is an intent whose plan people have to approve.
type Proposal struct {
	Intent, Kind, Does string
	Digest             string // of the plan, which an approval names
	Repo, Base         string
	Actions, Variables []string
	Prompt             string          // the work, in words
	Input              json.RawMessage // the rest of the input
}

func (p Proposal) commands() string {
	return fmt.Sprintf("/lattice %s %s\n/lattice %s REASON", comment.Approve, p.Digest, comment.Reject)
}

// Fits reports whether a comment shows the proposal as a whole.
func (p Proposal) Fits() bool {
	return len(visibleText(p.Prompt)) <= maxText && len(visibleText(indentJSON(p.Input))) <= maxText
}

// Proposed returns the comment that asks whether a plan shall be carried out. It shows all that the approval binds.
func Proposed(p Proposal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**lattice**: shall lattice %s? The intent %s (%s) waits for a person.\n", p.Does, Inline(p.Intent), Inline(p.Kind))
	if p.Prompt != "" {
		b.WriteString("\n" + Block(p.Prompt))
	}
	for _, row := range []struct{ name, value string }{
		{"repository", p.Repo}, {"commit", p.Base}, {"may ask for", strings.Join(p.Actions, " ")}, {"variables of the agent", strings.Join(p.Variables, " ")},
	} {
		if row.value != "" {
			fmt.Fprintf(&b, "\n- %s: %s", row.name, Inline(row.value))
		}
	}
	if len(p.Input) > 0 && string(p.Input) != "{}" {
		b.WriteString("\n\nThe rest of the input:\n\n" + Block(indentJSON(p.Input)))
	} else {
		b.WriteString("\n")
	}
	if !p.Fits() {
		b.WriteString("\n" + tooLong(fmt.Sprintf("lattice intent show %s\nlattice intent approve %[1]s\nlattice intent reject %[1]s", p.Intent)))
		return b.String()
	}
	approve := string(comment.Approve) + " " + p.Digest
	fmt.Fprintf(&b, "\n%s\n%s\n\nTick a box, or answer with a comment:\n\n%s", comment.Box("approve", approve), comment.Box("reject", string(comment.Reject)), Block(p.commands()))
	return b.String()
}

// Settled returns the comment that takes the place of a question when it needs no answer any more. of is the run or the intent that
// asked.
func Settled(of, prompt string) string {
	s := fmt.Sprintf("**lattice**: %s does not wait for this any more.\n", Inline(of))
	if prompt != "" {
		s += "\n" + Block(prompt)
	}
	return s
}

// Answer returns the comment with the answer of a run to an issue, and with a reason why lattice cannot carry it out, if there is one.
func Answer(run, answer, lacks string) string {
	s := fmt.Sprintf("**lattice**: the run %s answers:\n\n%s", Inline(run), Block(answer))
	if lacks != "" {
		s += fmt.Sprintf("\nlattice cannot carry it out: %s\n", Inline(lacks))
	}
	return s
}

// Thread is the state of the thread of a comment that is answered.
type Thread int

const (
	NoThread Thread = iota // the review has no comments on lines
	Open
	Resolved
)

// threadTexts tell the state of a thread, and how to go on.
var threadTexts = map[Thread]string{
	NoThread: "Approve the pull request, or review it again.",
	Open:     "The thread stays open. Resolve it if this is enough, or review again.",
	Resolved: "The thread is resolved, because its lines have changed. If this is not enough, open it and review again.",
}

// Reply returns the answer to a comment of a review that a run has worked on. It does not say that the comment is settled: the
// agent's word proves nothing.
func Reply(head string, changed bool, said string, t Thread) string {
	s := "**lattice** changed nothing.\n"
	if changed {
		s = fmt.Sprintf("**lattice** pushed %s.\n", Inline(fmt.Sprintf("%.12s", head)))
	}
	if said != "" {
		s += "\nThe agent says:\n\n" + Block(text.Head(said, maxSaid))
	}
	return s + "\n" + threadTexts[t] + "\n"
}

// Stuck returns the comment about checks that the agent did not repair.
func Stuck(checks, said string) string {
	s := "**lattice** could not repair the checks, and goes on when a person reviews the pull request:\n\n" + Block(checks)
	if said != "" {
		s += "\nThe agent says:\n\n" + Block(text.Head(said, maxSaid))
	}
	return s
}

// Assumption is an assumption of an agent about a line of a file. Line is 0 if it names none.
type Assumption struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Note string `json:"note"`
}

// Assumed returns the comment on a line about which an agent has assumed something.
func Assumed(a Assumption) string {
	return "**lattice**: the agent assumes here:\n\n" + Block(text.Head(a.Note, maxSaid)) + "\nIf that is wrong, say so in a review that asks for changes.\n"
}

// AssumedElsewhere returns the comment with the assumptions about lines that a pull request does not show, and those that are too many.
func AssumedElsewhere(all []Assumption) string {
	var b strings.Builder
	b.WriteString("**lattice**: the agent assumes:\n\n")
	for _, a := range all[:min(len(all), maxRows)] {
		place := "in general"
		if a.Path != "" {
			place = Inline(fmt.Sprintf("%s:%d", a.Path, a.Line))
		}
		fmt.Fprintf(&b, "- %s: %s\n", place, Inline(a.Note))
	}
	if more := len(all) - maxRows; more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return b.String() + "\nIf one is wrong, say so in a review that asks for changes.\n"
}

// Inline returns hostile text as code within a line.
func Inline(s string) string {
	s = splitRuns(text.Head(text.Line(s), maxLine), " ")
	if s == "" {
		return "(nothing)"
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	return fence + " " + s + " " + fence
}

// formatCell returns hostile text as code in a cell of a table, where a bar would end the cell.
func formatCell(s string) string { return Inline(strings.ReplaceAll(s, "|", "¦")) }

// Block returns hostile text as a block of code. Long lines are broken, so that they can be read without scrolling.
func Block(s string) string {
	s = splitRuns(text.Head(visibleText(s), maxText), "\n")
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	return fence + "text\n" + breakLines(strings.Trim(s, "\n"), 100) + "\n" + fence + "\n"
}

// visibleText returns hostile text as a block of code shows it, before it is cut.
func visibleText(s string) string { return text.Visible(strings.ReplaceAll(s, "\r\n", "\n")) }

// maxRun bounds the backquotes in a row. A fence is longer than each such run, and the fences of a long one would not fit into a comment.
const maxRun = 40

var longRuns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(fmt.Sprintf("`{%d}", maxRun)) })

// splitRuns writes a gap behind each maxRun backquotes in a row.
func splitRuns(s, gap string) string { return longRuns().ReplaceAllString(s, "$0"+gap) }

// longestRun returns the length of the longest run of backquotes.
func longestRun(s string) (longest int) {
	run := 0
	for _, c := range []byte(s) {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// breakLines breaks lines at spaces so that they have at most width characters, unless a word is longer.
func breakLines(s string, width int) string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		rest := []rune(line)
		for len(rest) > width {
			at := width
			for at > 0 && rest[at] != ' ' {
				at--
			}
			if at == 0 {
				break
			}
			out, rest = append(out, string(rest[:at])), rest[at+1:]
		}
		out = append(out, string(rest))
	}
	return strings.Join(out, "\n")
}

// maxListed is the number of the files and of the commits of a push that a comment shows if it cannot show all.
const maxListed = 20

// describeBinding returns the binding of an action with all members that an approval binds. Its lists of files and commits are for people:
// they are shortened before they push a warning out of the comment.
func describeBinding(raw json.RawMessage) string {
	whole := indentJSON(raw)
	var bound map[string]any
	if len(visibleText(whole)) <= maxText || json.Unmarshal(raw, &bound) != nil {
		return whole
	}
	shortenLists(bound)
	return indentValue(bound, whole)
}

// shortenLists shortens the lists of files and commits of a binding, and of those of further repositories.
func shortenLists(bound map[string]any) {
	for _, name := range []string{"files", "commits"} {
		if list, ok := bound[name].([]any); ok && len(list) > maxListed {
			bound[name] = append(slices.Clone(list[:maxListed]), fmt.Sprintf("and %d more", len(list)-maxListed))
		}
	}
	parts, _ := bound["also"].([]any)
	for _, part := range parts {
		if more, ok := part.(map[string]any); ok {
			shortenLists(more)
		}
	}
}

// indentJSON returns JSON with a member on each line.
func indentJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	return indentValue(v, string(raw))
}

// indentValue returns a value as JSON with a member on each line, or otherwise if it cannot be encoded.
func indentValue(v any, otherwise string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // people read it as code
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return otherwise
	}
	return strings.TrimRight(out.String(), "\n")
}
