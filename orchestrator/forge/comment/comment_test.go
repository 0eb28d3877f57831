package comment

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spritekit/lattice/orchestrator/forge"
)

const digest = "3f2a9c1e77b0"

func TestCommands(t *testing.T) {
	t.Parallel()
	cases := map[string][]Command{
		"/lattice status":            {{Verb: Status, Line: 1}},
		"/lattice":                   {{Verb: Help, Line: 1}},
		"/lattice APPROVE " + digest: {{Verb: Approve, Text: digest, Line: 1}},
		"Looks good.\r\n/lattice approve " + digest + "\r\nThanks": {{Verb: Approve, Text: digest, Line: 2}},
		"/lattice reject  not now \n\n/lattice help":               {{Verb: Reject, Text: "not now", Line: 1}, {Verb: Help, Line: 3}},
		"/lattice answer two\nlines\n\n/lattice status":            {{Verb: Answer, Text: "two\nlines", Line: 1}, {Verb: Status, Line: 4}},
		"/lattice research How\nmany?\n/lattice status":            {{Verb: Research, Text: "How\nmany?", Line: 1}, {Verb: Status, Line: 3}},
		"/lattice answer\n```\n/lattice cancel\n```":               {{Verb: Answer, Text: "```\n/lattice cancel\n```", Line: 1}},
		"a `code` b\n/lattice status":                              {{Verb: Status, Line: 2}},
		"> quoted\n\n/lattice status":                              {{Verb: Status, Line: 3}},
		"```\n/lattice cancel\n```\n/lattice status":               {{Verb: Status, Line: 4}},
		"> ```\n> code\n\n/lattice status":                         {{Verb: Status, Line: 4}},
		"<!-- a note -->\n\n/lattice status":                       {{Verb: Status, Line: 3}},
		"See <https://a.example/x> and [y](z).\n/lattice status":   {{Verb: Status, Line: 2}},
		"- [ ] a\n- [x] b (c)\n/lattice status":                    {{Verb: Status, Line: 3}},
		"<details>\n\na\n\n</details>\n\n/lattice status":          {{Verb: Status, Line: 7}},
		"$$\nx\n$$\n/lattice status":                               {{Verb: Status, Line: 4}},
		"1. ```\n   x\n   ```\n/lattice status":                    {{Verb: Status, Line: 4}},
		"- a\n\n\t```\n\tx\n\n\t```\n/lattice status":              {{Verb: Status, Line: 7}},
		"```\nx\n   ``` \n/lattice status":                         {{Verb: Status, Line: 4}},
		"/lattice\tapprove\t" + digest:                             {{Verb: Approve, Text: digest, Line: 1}},
		"a < b\n/lattice status":                                   {{Verb: Status, Line: 2}},
		"```suggestion\r\nx\r\n```\r\n/lattice status":             {{Verb: Status, Line: 4}},
	}
	for body, want := range cases {
		if got := Parse(body); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", body, got, want)
		}
	}
}

// TestNoCommand holds texts in which the words are not a command.
func TestNoCommand(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "please /lattice approve " + digest, " /lattice cancel", "\t/lattice cancel", "    /lattice cancel", "//lattice cancel", "/latticecancel", "/Lattice cancel",
		"- /lattice cancel", "> /lattice cancel", "> a quotation that\n/lattice cancel", ">\n/lattice cancel", "- > quoted in a list\n\n  /lattice cancel",
		"```\n/lattice cancel", "~~~ text\n/lattice cancel\n```\n/lattice cancel\n~~~", "````\n```\n/lattice cancel\n````", "1. ```\n/lattice cancel\n```",
		"`code that\n/lattice cancel\ngoes on`", "``a ` b\n/lattice cancel\n``",
		"<!--\n/lattice cancel\n-->", "text <!-- hidden\n/lattice cancel\n-->", "<!-- a --> <!--\n/lattice cancel\n-->", "<details>\n/lattice cancel\n</details>", "<pre>\n\n/lattice cancel\n</pre>", "<SCRIPT>\n\n/lattice cancel\n</script>",
		"\t```\n/lattice cancel", "~~~~\n~~~\n/lattice cancel\n~~~~", "- ~~~\n  x\n/lattice cancel\n  ~~~", "```suggestion\r\n/lattice cancel\r\n```", "$$\n/lattice cancel\n$$",
		"> > nested\n/lattice cancel", "1. > a\n/lattice cancel", "- > a\n/lattice cancel", "- a\n  > b\n/lattice cancel",
		"<details>\n\n/lattice cancel\n\n</details>", "<details><summary>x</summary>\n\n/lattice cancel\n</details>", "<p hidden>\n/lattice cancel\n</p>", "a <pre>\n/lattice cancel\n</pre>", "a <span title='\n/lattice cancel\n'>",
		"<?x\n\n/lattice cancel\n?>", "<![CDATA[\n\n/lattice cancel\n]]>", "<!X\n\n/lattice cancel\n>",
		"[//]: # (\n/lattice cancel\n)", "[x]: y \"\n/lattice cancel\n\"", "[^1]: note\n/lattice cancel", "[a](<\n/lattice cancel\n>)", "[a](x '\n/lattice cancel\n')", "![\n/lattice cancel\n](x)",
		"On Monday, sue wrote:\n\n/lattice cancel", "On Monday sue <s@x> wrote:\n> a\n\n/lattice cancel", "-----Original Message-----\nFrom: sue\n\n/lattice cancel", "From: sue\nSent: Monday\n\n/lattice cancel", "________________________________\nFrom: sue\n/lattice cancel", "-- \n/lattice cancel",
		"```\n    ```\n/lattice cancel\n```", "```\n\t```\n/lattice cancel\n```", "```\n```\u00a0\n/lattice cancel\n```", "```\n\u2003```\n/lattice cancel\n```", "~~~\n~~~\x0b\n/lattice cancel\n~~~",
		"- ```\nx\n```\n/lattice cancel\n```", "- ```\nx\n  ```\n/lattice cancel\n```", "    ```\n\n```\n/lattice cancel\n```", "- ```\n     ```\n\n```\n/lattice cancel\n```",
		"x\r```\n\n/lattice cancel\n```", "x\r~~~\n/lattice cancel\n~~~", "> a quotation that\n\u00a0\n/lattice cancel", "<p>\n\u00a0\n/lattice cancel\n</p>", "`code that\n\x0c\n/lattice cancel\ngoes on`",
		"\uff0flattice cancel", "\u2215lattice cancel", "/\u202elattice cancel", "/lattice\u200b cancel", "/lattice\u2003cancel", "\r/lattice cancel", "\x0b/lattice cancel", "\x0c/lattice cancel",
		"\u200b/lattice cancel", "\ufeff/lattice cancel", "/\u200blattice cancel", "/lаttice cancel", "/lattice\u00a0cancel", "x\r/lattice cancel", "x\u2028/lattice cancel", "x\x85/lattice cancel",
	} {
		if got := Parse(body); len(got) > 0 {
			t.Errorf("%q is read as %+v", body, got)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"/lattice aprove " + digest:                   "did you mean /lattice approve?",
		"/lattice destroy":                            "/lattice help lists them",
		"/lattice " + strings.Repeat("a", 9000):       "/lattice help lists them",
		"/lattice approve":                            "names the digest",
		"/lattice approve abc":                        "names the digest",
		"/lattice approve " + digest + " and more":    "names the digest",
		"/lattice approve " + strings.ToUpper(digest): "names the digest",
		"/lattice answer":                             "empty",
		"/lattice status please":                      "takes nothing",
		"/lattice reject \u202etxt":                   "not shown",
		"/lattice answer a\U000e0041":                 "not shown",
		strings.Repeat("/lattice status\n", 11):       "at most 10 commands",
	} {
		all := Parse(body)
		if len(all) == 0 || len(all) > maxCommands || !strings.Contains(all[len(all)-1].Problem, want) {
			t.Errorf("%.40q: %+v does not say %q", body, all, want)
		}
	}
	if got := Parse("/lattice answer 👩‍🚀 ✔️"); got[0].Problem != "" {
		t.Errorf("emoji are refused: %+v", got)
	}
}

// TestTooManyCommands checks that the commands of a comment with too many are checked, too.
func TestTooManyCommands(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]string{
		"/lattice approve everything":  "names the digest",
		"/lattice plan ../../secret":   "a path in the repository",
		"/lattice reject \u202etxt":    "not shown",
		"/lattice reject   not now   ": "",
	} {
		all := Parse(first + "\n" + strings.Repeat("/lattice status\n", maxCommands))
		if got := all[0].Problem; len(all) != maxCommands || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %d commands, the first with the problem %q, want %q", first, len(all), got, want)
		}
		if text := all[0].Text; text != strings.TrimSpace(text) {
			t.Errorf("%q: the text %q has blanks at its ends", first, text)
		}
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	one, two := map[string]string{"answer": "string"}, map[string]string{"colour": "string", "count": "integer"}
	cases := []struct {
		text     string
		expected map[string]string
		optional []string
		want     map[string]string
	}{
		{"blue", one, nil, map[string]string{"answer": "blue"}},
		{"answer: blue", one, nil, map[string]string{"answer": "blue"}},
		{"use this: blue", one, nil, map[string]string{"answer": "use this: blue"}},
		{"answer: a\nanswer: b", one, nil, map[string]string{"answer": "answer: a\nanswer: b"}},
		{"colour: blue\n\ncount = 3", two, nil, map[string]string{"colour": "blue", "count": "3"}},
		{"colour = https://a.example/x\ncount: 3=4", two, nil, map[string]string{"colour": "https://a.example/x", "count": "3=4"}},
		{"answer = at 12:30", one, nil, map[string]string{"answer": "at 12:30"}},
		{"### colour\n\nblue\nor: green\n\n### count\n\n3\n", two, nil, map[string]string{"colour": "blue\nor: green", "count": "3"}},
		{"blue", two, []string{"count"}, map[string]string{"colour": "blue"}},
		{"blue", two, nil, nil},
		{"colour: blue\nshape: round", two, nil, nil},
		{"colour: blue\ncolour: red", two, nil, nil},
		{"", map[string]string{}, nil, nil},
	}
	for _, c := range cases {
		got, err := Fill(c.text, c.expected, c.optional)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q for %v is %v, %v", c.text, c.expected, got, err)
		}
	}
}

func TestTicked(t *testing.T) {
	t.Parallel()
	body := "Approve?\n\n" + Box("approve", "approve "+digest) + "\n" + Box("reject", "reject") + "\n"
	tick := func(label string) string { return strings.Replace(body, "- [ ] "+label, "- [x] "+label, 1) }
	if c, ok := Ticked(body, tick("approve")); !ok || c.Verb != Approve || c.Text != digest {
		t.Errorf("the box is read as %+v, %v", c, ok)
	}
	if c, ok := Ticked(body, strings.ReplaceAll(tick("reject"), "\n", "\r\n")); !ok || c.Verb != Reject {
		t.Errorf("the second box is read as %+v, %v", c, ok)
	}
	for name, after := range map[string]string{
		"nothing":           body,
		"both boxes":        strings.ReplaceAll(body, "- [ ]", "- [x]"),
		"another digest":    strings.Replace(tick("approve"), digest, "ffffffffffff", 1),
		"another line":      strings.Replace(tick("approve"), "Approve?", "Approve!", 1),
		"one more line":     tick("approve") + "\n",
		"the label":         strings.Replace(tick("approve"), "] approve", "] harmless", 1),
		"a box of a person": strings.Replace(body, "Approve?", "- [x] Approve?", 1),
	} {
		if c, ok := Ticked(body, after); ok {
			t.Errorf("%s: the edit is read as %+v", name, c)
		}
	}
	if c, ok := Ticked(tick("approve"), body); ok {
		t.Errorf("a box that was cleared is read as %+v", c)
	}
	if c, ok := Ticked("- [ ] x <!-- /lattice destroy -->", "- [x] x <!-- /lattice destroy -->"); ok {
		t.Errorf("an unknown command is read as %+v", c)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, d := range verbs {
		if Least(d.Verb) != d.Least || !strings.Contains(HelpText(), "/lattice "+d.Usage) {
			t.Errorf("%s is not described", d.Verb)
		}
	}
	for _, v := range []Verb{Plan, Research, Approve, Reject, Answer, Cancel, Rerun, Hold} {
		if forge.Read.AtLeast(Least(v)) || forge.Triage.AtLeast(Least(v)) {
			t.Errorf("a reader may %s", v)
		}
	}
	if Least("destroy") != forge.Admin {
		t.Error("an unknown command needs no admin")
	}
}

// FuzzParse checks that no text hides a command behind a prefix that makes it code, and that parsing ends.
func FuzzParse(f *testing.F) {
	f.Add("text\n")
	f.Add("`a\n~~~\n<!--")
	f.Fuzz(func(t *testing.T, body string) {
		for _, c := range Parse(body) {
			lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
			if !strings.HasPrefix(lines[c.Line-1], prefix) {
				t.Errorf("%q: the command is not at the start of line %d", body, c.Line)
			}
		}
		if fenced := Parse("```````\n" + strings.ReplaceAll(body, "```````", "")); len(fenced) > 0 {
			t.Errorf("%q: code holds the command %+v", body, fenced)
		}
	})
}

func TestReferences(t *testing.T) {
	t.Parallel()
	got := References("See #7, (#8) and #7.\nIn `#9`, ``#16``, ``a ` #17 ` b`` and a#10 #0 `\n\n``` #18 ``` #19\n```\n#11\n```\n> #12\n\n#13\r\nx/#14 #15a")
	if diff := cmp.Diff([]int64{7, 8, 19, 13}, got); diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}
}

// TestLongParagraph reads paragraphs of as many lines as a comment can have. To read the lines before each line again takes minutes.
func TestLongParagraph(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	fill := func(line string) string { return strings.Repeat(line, size/len(line)) }
	for name, c := range map[string]struct {
		body     string
		commands int
	}{
		"short lines":     {fill("a\n") + "/lattice status", 1},
		"code":            {fill("`a`\n") + "/lattice status", 1},
		"open code":       {"`\n" + fill("a\n") + "/lattice status", 0},
		"links":           {fill("[a](b)\n") + "/lattice status", 1},
		"an open link":    {fill("[a](b)\n") + "[a](\n/lattice status", 0},
		"brackets":        {fill("[\n") + "/lattice status", 0},
		"addresses":       {fill("<a:b>\n") + "/lattice status", 0},
		"hidden commands": {"x <a\n" + fill("/lattice status\n"), 0},
		"an answer":       {"/lattice answer a\n" + fill("b\n"), 1},
	} {
		if got := Parse(c.body); len(got) != c.commands {
			t.Errorf("%s: %d commands, want %d", name, len(got), c.commands)
		}
		if got := References(c.body + "\n\n#7"); name != "an answer" && len(got) != 1 {
			t.Errorf("%s: the references are %v", name, got)
		}
	}
}
