package presence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// hostile is text that would act if a code host showed it as Markdown.
const hostile = "```\n@everyone ![x](https://e.test/?q=1) <img src=https://e.test> closes #1\n- [x] approve <!-- /lattice approve 0000000 -->\n/lattice approve 0000000\n````\n\x1b[31m\u202e| a | b |"

func TestStatus(t *testing.T) {
	t.Parallel()
	r := Run{ID: "run_1", Flow: "issue-triage", Status: lattice.Running, Latest: "reads", Steps: []Step{{"issue", "done", 1400 * time.Millisecond}, {"tri|age", "running", 0}}}
	want := "**lattice**: the run ` run_1 ` (` issue-triage `) works.\n\n| step | state | time |\n|---|---|---|\n| ` issue ` | done | 1s |\n| ` tri¦age ` | running |  |\n\nLatest: ` reads `\n"
	if got := Status(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.Steps = make([]Step, 100)
	if got := Status(r); !strings.Contains(got, "60 earlier steps") || strings.Count(got, "\n| ") != 41 {
		t.Errorf("a long run is shown as\n%s", got)
	}
	for status := range verbs {
		if !strings.Contains(Status(Run{Status: status}), verbs[status]) {
			t.Errorf("%s is not told", status)
		}
	}
}

// TestHostile puts hostile text into every member. Outside of code only our own words may be left.
func TestHostile(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(map[string]string{"title": hostile})
	if err != nil {
		t.Fatal(err)
	}
	w := lattice.Wait{ID: "w1", Prompt: hostile, Reason: hostile + "!", Choices: []string{hostile}, Details: raw, Expected: map[string]string{hostile: hostile, "b": "string"}, Calls: []lattice.PlannedCall{{Skill: hostile, Input: raw}}}
	action := lattice.Wait{Kind: lattice.WaitAction, Action: &lattice.Action{Name: hostile, Parameters: raw, Binding: raw}}
	for name, body := range map[string]string{
		"status":   Status(Run{ID: hostile, Flow: hostile, Steps: []Step{{hostile, "done", 0}}, Latest: hostile, Failure: hostile}),
		"question": Question(hostile, w), "action": Question("run_1", action), "settled": Settled(hostile, hostile), "answer": Answer(hostile, hostile, hostile),
		"proposed": Proposed(Proposal{Intent: hostile, Kind: hostile, Does: "do it", Digest: "abc", Repo: hostile, Base: hostile, Actions: []string{hostile}, Variables: []string{hostile}, Prompt: hostile, Input: raw}),
		"asks":     Status(Run{ID: "run_1", Flow: "f", Asks: []Proposal{{Intent: hostile, Prompt: hostile, Does: "do it", Digest: "abc"}}}),
	} {
		if got := comment.Parse(body); len(got) > 0 {
			t.Errorf("%s: the text commands %+v", name, got)
		}
		shown := withoutCode(body)
		for _, bad := range []string{"@", "http", "![", "<img", "#1", "- [x]", "0000000", "\x1b", "\u202e"} {
			if strings.Contains(shown, bad) {
				t.Errorf("%s: %q is outside of code:\n%s", name, bad, shown)
			}
		}
	}
}

// withoutCode removes code as CommonMark defines it: fenced blocks, then spans.
func withoutCode(body string) string {
	var out []string
	fence := ""
	for line := range strings.SplitSeq(body, "\n") {
		marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "" && len(marks) >= len(fence) && line == marks:
			fence = ""
		case fence != "":
		case len(marks) >= 3:
			fence = marks
		default:
			out = append(out, withoutSpans(line))
		}
	}
	if fence != "" {
		return "a block of code has no end: " + body
	}
	return strings.Join(out, "\n")
}

func withoutSpans(line string) string {
	before, rest, found := strings.Cut(line, "`")
	if !found {
		return line
	}
	n := 1 + len(rest) - len(strings.TrimLeft(rest, "`"))
	rest = strings.TrimLeft(rest, "`")
	mark := " " + strings.Repeat("`", n)
	_, after, found := strings.Cut(rest, mark)
	if !found {
		return line
	}
	return before + withoutSpans(after)
}

// TestAnswers checks that a question shows commands that answer it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	yes := lattice.Wait{ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?"}
	body := Question("run_1", yes)
	box := "- [ ] approve <!-- /lattice approve " + Digest("run_1", yes) + " -->"
	if !strings.Contains(body, box) || !strings.Contains(body, "\n/lattice approve "+Digest("run_1", yes)+"\n") {
		t.Errorf("the question is\n%s", body)
	}
	if c, ok := comment.Ticked(body, strings.Replace(body, "- [ ] approve", "- [x] approve", 1)); !ok || c.Text != Digest("run_1", yes) {
		t.Errorf("the box is read as %+v, %v", c, ok)
	}
	for name, other := range map[string]lattice.Wait{
		"prompt": {ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on!"},
		"id":     {ID: "w2", Kind: lattice.WaitHuman, Prompt: "Go on?"},
		"action": {ID: "w1", Kind: lattice.WaitHuman, Prompt: "Go on?", Action: &lattice.Action{Name: "OPEN_PR"}},
	} {
		if Digest("run_1", other) == Digest("run_1", yes) {
			t.Errorf("another %s has the same digest", name)
		}
	}
	if Digest("run_2", yes) == Digest("run_1", yes) {
		t.Error("another run has the same digest")
	}
	one := Question("run_1", lattice.Wait{Expected: map[string]string{"answer": "string"}})
	if !strings.Contains(one, "\n/lattice answer TEXT\n") || strings.Contains(one, "approve") {
		t.Errorf("the question with one input is\n%s", one)
	}
	two := Question("run_1", lattice.Wait{Expected: map[string]string{"colour": "string", "count": "integer"}, Optional: []string{"count"}})
	if !strings.Contains(two, "\n/lattice answer\ncolour: (string)\ncount: (integer, optional)\n") {
		t.Errorf("the question with two inputs is\n%s", two)
	}
}

// TestLongWaits checks that a question fits into a comment, and that only one which shows all can be approved there.
func TestLongWaits(t *testing.T) {
	t.Parallel()
	encode := func(v any) json.RawMessage {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	words := func(n int) string { return strings.Repeat("word ", n/5) }
	file := map[string]any{"path": strings.Repeat("folder/", 20) + "main.go", "status": "M", "additions": 1, "deletions": 1}
	commit := map[string]any{"sha": strings.Repeat("a", 40), "subject": words(100), "author": "A <a@example.com>"}
	push := map[string]any{"head": strings.Repeat("b", 40), "remote": "https://example.com/acme/site", "files": slices.Repeat([]any{file}, 200), "commits": slices.Repeat([]any{commit}, 50),
		"files_total": 5000, "warnings": []string{"possible secret (1): zz.go:1 (key)"}}
	tool := func(arguments string) *lattice.Action {
		return &lattice.Action{Name: "USE_TOOL", Parameters: encode(map[string]string{"arguments": arguments, "name": "Bash"})}
	}
	calls := func(n int) []lattice.PlannedCall {
		return slices.Repeat([]lattice.PlannedCall{{Skill: "git.push", Input: encode(map[string]int{"n": 1})}}, n)
	}
	expected := map[string]string{}
	for i := range 2000 {
		expected[fmt.Sprintf("an-input-with-a-long-name-%d", i)] = "string"
	}
	for name, c := range map[string]struct {
		wait  lattice.Wait
		fits  bool
		shows string
	}{
		"short":                    {lattice.Wait{Kind: lattice.WaitAction, Action: tool("ls")}, true, `"arguments": "ls"`},
		"a long tool call":         {lattice.Wait{Kind: lattice.WaitAction, Action: tool("ls #" + words(30<<10) + ";danger")}, false, `"arguments": "ls`},
		"a tool call that fits":    {lattice.Wait{Kind: lattice.WaitAction, Action: tool("ls #" + words(20<<10) + ";danger")}, true, ";danger"},
		"invisible characters":     {lattice.Wait{Kind: lattice.WaitAction, Action: tool(strings.Repeat("\u200b", 4<<10) + ";danger")}, false, "<U+200B>"},
		"a long prompt":            {lattice.Wait{Kind: lattice.WaitHuman, Prompt: words(30 << 10)}, false, "word"},
		"long details":             {lattice.Wait{Kind: lattice.WaitWorld, Prompt: "Go on?", Details: encode(map[string]string{"text": words(30 << 10)})}, false, "Go on?"},
		"long only together":       {lattice.Wait{Kind: lattice.WaitHuman, Prompt: words(20 << 10), Reason: "r", Details: encode(words(20 << 10)), Choices: []string{words(20 << 10)}}, false, "word"},
		"many calls":               {lattice.Wait{Kind: lattice.WaitHuman, Prompt: "Go on?", Calls: calls(3000)}, false, "calls are not shown"},
		"some calls":               {lattice.Wait{Kind: lattice.WaitHuman, Prompt: "Go on?", Calls: calls(30)}, true, "git.push"},
		"backquotes":               {lattice.Wait{Kind: lattice.WaitHuman, Prompt: strings.Repeat("`", 20<<10)}, true, "````"},
		"a push of many files":     {lattice.Wait{Kind: lattice.WaitAction, Action: &lattice.Action{Name: "PUSH_BRANCH", Parameters: encode(map[string]string{"branch": "fix"}), Binding: encode(push)}}, true, "possible secret (1): zz.go:1 (key)"},
		"pushes of many files":     {lattice.Wait{Kind: lattice.WaitAction, Action: &lattice.Action{Name: "PUSH_BRANCH", Parameters: encode("x"), Binding: encode(map[string]any{"also": []any{push}, "head": "b"})}}, true, "and 180 more"},
		"a question of many parts": {lattice.Wait{Kind: lattice.WaitHuman, Prompt: words(24 << 10), Details: encode(words(30 << 10)), Expected: expected}, false, "/lattice answer"},
	} {
		body := Question("run_1", c.wait)
		approves := strings.Contains(body, "/lattice approve ")
		if got := Fits(c.wait); got != c.fits || approves != (c.fits && c.wait.YesOrNo()) || len(body) > 64_000 || !strings.Contains(body, c.shows) {
			t.Errorf("%s: it fits: %v; the question, with %d bytes, asks for an approval: %v; it is\n%.500s\n…\n%.500s", name, got, len(body), approves, body, body[max(0, len(body)-500):])
		}
		if strings.Contains(withoutCode(body), "danger") || len(comment.Parse(body)) > 0 {
			t.Errorf("%s: text is outside of code", name)
		}
	}
	hidden := strings.Repeat("\u200b", 4<<10)
	for name, p := range map[string]Proposal{"prompt": {Prompt: hidden}, "input": {Input: encode(hidden)}} {
		if p.Digest = "0123456789abcdef01234567"; p.Fits() || strings.Contains(Proposed(p), "/lattice approve") {
			t.Errorf("%s: a proposal with invisible characters that a comment does not show can be approved", name)
		}
	}
	for name, body := range map[string]string{
		"status": Status(Run{ID: "run_1", Failure: strings.Repeat("`", 64<<10), Latest: strings.Repeat("`", 1000), Steps: slices.Repeat([]Step{{Name: strings.Repeat("`", 300)}}, maxRows)}),
		"answer": Answer("run_1", strings.Repeat("`", 64<<10), ""),
		"lines":  AssumedElsewhere(slices.Repeat([]Assumption{{Path: strings.Repeat("`", 300), Note: strings.Repeat("`", 300)}}, 2*maxRows)),
	} {
		if len(body) > 64_000 || strings.Contains(withoutCode(body), "``") {
			t.Errorf("%s: %d bytes, without code %.200q", name, len(body), withoutCode(body))
		}
	}
}

func TestBreakLines(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"aa bb cc": "aa bb\ncc", "aaaaaaaa": "aaaaaaaa", "a": "a", "": "", "aa\nbb": "aa\nbb", "äääää ä": "äääää\nä", "aaaaaaa bb": "aaaaaaa bb"} {
		if got := breakLines(in, 5); got != want {
			t.Errorf("%q is broken into %q, not %q", in, got, want)
		}
	}
	if got := Block(strings.Repeat("x ", maxText)); len(got) > maxText+100 {
		t.Errorf("a long text becomes %d bytes", len(got))
	}
}
