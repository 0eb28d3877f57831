package flowline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// What a line says, step by step: id, skill and inputs.
func TestLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		want []string
	}{
		"one step":                  {`fs.read path=a`, []string{`fs_read fs.read {"path":"a"}`}},
		"steps":                     {`fs.write path=a content=hi | fs.read path=a`, []string{`fs_write fs.write {"path":"a","content":"hi"}`, `fs_read fs.read {"path":"a"}`}},
		"no blanks at the bar":      {`fs.read path=a|fs.read path=b`, []string{`fs_read fs.read {"path":"a"}`, `fs_read_2 fs.read {"path":"b"}`}},
		"numbered":                  {`git.status|git.status|git.status`, []string{`git_status git.status `, `git_status_2 git.status `, `git_status_3 git.status `}},
		"single quotes":             {`fs.read path='a b | $in.x \ "'`, []string{`fs_read fs.read {"path":"a b | $in.x \\ \""}`}},
		"double quotes":             {`fs.read path="a \"b\" \\ \$x \n | c"`, []string{`fs_read fs.read {"path":"a \"b\" \\ $x \\n | c"}`}},
		"backslash":                 {`fs.read path=a\ b\|\$in.x`, []string{`fs_read fs.read {"path":"a b|$in.x"}`}},
		"pieces join":               {`fs.read path=a'b c'"d"e`, []string{`fs_read fs.read {"path":"ab cde"}`}},
		"empty text":                {`fs.write path=a content= | fs.write path=b content=""`, []string{`fs_write fs.write {"path":"a","content":""}`, `fs_write_2 fs.write {"path":"b","content":""}`}},
		"equal signs in text":       {`fs.read path=a=b:=c`, []string{`fs_read fs.read {"path":"a=b:=c"}`}},
		"letters of all kinds":      {`fs.read path=größe/✓`, []string{`fs_read fs.read {"path":"größe/✓"}`}},
		"JSON":                      {`fs.read path=a offset:=3|git.add paths:=["a b","|"] all:=false`, []string{`fs_read fs.read {"path":"a","offset":3}`, `git_add git.add {"paths":["a b","|"],"all":false}`}},
		"JSON in quotes":            {`git.add paths:='["a b"]'`, []string{`git_add git.add {"paths":["a b"]}`}},
		"input":                     {`fs.read path=$in.x`, []string{`fs_read fs.read {"path":"$in.x"}`}},
		"input in quotes":           {`fs.read path="$in.x"`, []string{`fs_read fs.read {"path":"$in.x"}`}},
		"output of a step":          {`git.clone url=u | fs.read path=$git_clone.dest`, []string{`git_clone git.clone {"url":"u"}`, `fs_read fs.read {"path":"$vars.git_clone.dest"}`}},
		"output in JSON":            {`git.clone url=u | git.add paths:=["$git_clone.dest"]`, []string{`git_clone git.clone {"url":"u"}`, `git_add git.add {"paths":["$vars.git_clone.dest"]}`}},
		"text around a reference":   {`git.clone url=u | fs.read path=$git_clone.dest/go.mod`, []string{`git_clone git.clone {"url":"u"}`, `fs_read fs.read {"path":{"concat":["$vars.git_clone.dest","/go.mod"]}}`}},
		"reference in braces":       {`fs.read path="${in.a}.txt"`, []string{`fs_read fs.read {"path":{"concat":["$in.a",".txt"]}}`}},
		"path that is no reference": {`fs.read path=$in.a.`, []string{`fs_read fs.read {"path":{"concat":["$in.a","."]}}`}},
		"dollars that are text":     {`fs.read path=$5\$x$ | fs.read path='$in.x' | fs.read path='$$x'`, []string{`fs_read fs.read {"path":"$5$x$"}`, `fs_read_2 fs.read {"path":"$$in.x"}`, `fs_read_3 fs.read {"path":"$$$x"}`}},
		"missing input":             {`fs.write content=c | fs.read`, []string{`fs_write fs.write {"content":"c","path":"$in.path"}`, `fs_read fs.read {"path":"$in.path"}`}},
		"line breaks":               {"fs.read path=a\n| fs.read path=b\n", []string{`fs_read fs.read {"path":"a"}`, `fs_read_2 fs.read {"path":"b"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, errs := Parse(c.line, manifests.Lookup)
			if len(errs) > 0 {
				t.Fatalf("Line(%s): %+v", c.line, errs)
			}
			var got []string
			for _, s := range w.Nodes {
				got = append(got, s.ID+" "+s.Type+" "+string(s.In))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Line(%s) (-want +got):\n%s", c.line, diff)
			}
			text, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			if flow, findings := compile.Parse(text, manifests.Lookup); flow == nil {
				t.Errorf("Line(%s) gave a workflow that does not compile: %+v", c.line, findings)
			}
		})
	}
}

// Literal text comes out of a run as it was written.
func TestLineTextIsLiteral(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "$", "$5", "$x", "$$", "$$x", "$in.x", "$vars", "a$in.x", "${in.x}", "ü"} {
		w, _, errs := Parse("fs.read path='"+text+"'", manifests.Lookup)
		if len(errs) > 0 {
			t.Fatalf("%q: %+v", text, errs)
		}
		value, failure := expr.Eval(w.Nodes[0].In, expr.Scope{})
		if failure != nil || value.(map[string]any)["path"] != text {
			t.Errorf("%q became %s, which is %v (%v)", text, w.Nodes[0].In, value, failure)
		}
	}
}

func TestLineInputs(t *testing.T) {
	t.Parallel()
	w, inputs, errs := Parse(`git.clone branch=$in.b | fs.write | fs.read | git.commit`, manifests.Lookup)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var got []string
	for _, in := range inputs {
		got = append(got, fmt.Sprintf("%s %s %v", in.Name, in.Type, in.Steps))
	}
	want := []string{"content string [fs_write]", "path string [fs_write fs_read]", "url string [git_clone]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if string(w.Output) != `"$vars.git_commit"` {
		t.Errorf("the output is %s", w.Output)
	}
	tools := func(name string) (manifests.Skill, bool) {
		types := map[string]string{"a.a": "string", "b.b": "integer"}
		return manifests.Skill{Name: name, Inputs: []manifests.Field{{Name: "n", Type: types[name], Required: true}}}, types[name] != ""
	}
	w, _, errs = Parse(`a.a | b.b`, tools)
	if len(errs) > 0 || string(w.Nodes[1].In) != `{"n":"$in.b_b_n"}` {
		t.Errorf("inputs of two types share a name: %s %v", w.Nodes[1].In, errs)
	}
}

// Every fault of a line is told with its place.
func TestLineErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want, hint string }{
		"empty":             {``, `1+1 step_empty`, "git.clone"},
		"empty step":        {`fs.read path=a | `, `18+1 step_empty`, ""},
		"two bars":          {`fs.read path=a || git.status`, `17+1 step_empty`, ""},
		"pair for a skill":  {`path=a`, `1+4 step_empty`, ""},
		"no skill":          {`3x path=a`, `1+2 tool_unknown`, ""},
		"unknown skill":     {`git.clon url=u | git.status`, `1+8 tool_unknown`, `did you mean "git.clone"?`},
		"bar in text":       {`fs.read path=a|b`, `16+1 tool_unknown`, "quoted: 'a|b'"},
		"not UTF-8":         {"fs.read path=ü\uFFFD\xff\xfe", `16+1 not_utf8`, "UTF-8"},
		"no pair":           {`fs.read path=a b`, `16+1 pair_invalid`, "name=text"},
		"no name":           {`fs.read =a`, `9+1 pair_invalid`, ""},
		"unknown input":     {`git.clone url=u | fs.read path=a pfad=b`, `34+6 arg_unknown`, `known: path`},
		"twice":             {`fs.read path=a path=b`, `16+4 key_duplicate`, ""},
		"open quote":        {`fs.read path='a b`, `14+4 quote_open`, "close it"},
		"open double quote": {`fs.read path=ü"a b`, `15+4 quote_open`, "close it"},
		"lone backslash":    {`fs.read path=a\`, `15+1 quote_open`, ""},
		"no JSON":           {`fs.read path=a offset:=x`, `24+1 json_invalid`, "name=text"},
		"open JSON":         {`git.add paths:=["a"`, `16+4 json_invalid`, ""},
		"stuck to JSON":     {`git.add paths:=["a"]x`, `21+1 json_invalid`, "space"},
		"open JSON quote":   {`git.add paths:='["a"]`, `16+6 quote_open`, ""},
		"two JSON values":   {`git.add paths:='1 2'`, `16+5 json_invalid`, ""},
		"text for a number": {`fs.read path=a offset=3`, `16+8 arg_type`, "offset:=3"},
		"later step":        {`fs.read path=$git_clone.dest | git.clone url=u`, `14+15 ref_invalid`, "$in.git_clone"},
		"misspelt step":     {`git.clone url=u | fs.read path=$git_clon.dest`, `32+14 ref_invalid`, `did you mean "git_clone"?`},
		"unknown output":    {`git.clone url=u | fs.read path=$git_clone.des`, `27+19 member_unknown`, `did you mean "dest"?`},
		"output of a type":  {`git.clone url=u | fs.read path=$git_clone.files`, `27+21 port_type`, "json"},
		"open brace":        {`fs.read path=${in.x`, `14+2 ref_invalid`, ""},
		"no reference":      {`fs.read path=${in.x y}`, `14+9 ref_invalid`, "single quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, errs := Parse(c.line, manifests.Lookup)
			if len(errs) != 1 {
				t.Fatalf("Line(%s) = %d errors %+v", c.line, len(errs), errs)
			}
			e := errs[0]
			if got := fmt.Sprintf("%d+%d %s", e.Column, e.Width, e.Code); got != c.want || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("Line(%s) = %s (%s; %s), want %s (%s)", c.line, got, e.Message, e.Hint, c.want, c.hint)
			}
		})
	}
	if _, _, errs := Parse(`git.clon url=u | fs.read pfad=a path=b | fs.rad`, manifests.Lookup); len(errs) != 3 {
		t.Errorf("three faults give %+v", errs)
	}
	// Those of one JSON value stand at one place, and always in one order.
	for range 20 {
		_, _, errs := Parse(`fs.read path:={"c":"$three","a":"$one","b":"$two"}`, manifests.Lookup)
		var all string
		for _, e := range errs {
			all += e.Message + "; "
		}
		if one, two, three := strings.Index(all, "one"), strings.Index(all, "two"), strings.Index(all, "three"); one < 0 || two < one || three < two {
			t.Fatalf("the faults of one value are told as %s", all)
		}
	}
}

// A line gives errors at places within it, or a workflow that compiles.
func FuzzLine(f *testing.F) {
	for _, line := range []string{`git.clone url="$in.a b" depth:=1 | fs.read path=${git_clone.dest}/x\ y'z'`, `fs.read path:='"a"'|`, "fs.read path=\xff", `a.b c:={"lit":"$x"}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		w, _, errs := Parse(line, manifests.Lookup)
		for _, e := range errs {
			if e.Column < 1 || e.Width < 1 || e.Column > len(line)+1 || e.Message == "" || e.Code == "" {
				t.Fatalf("Line(%q): %+v", line, e)
			}
		}
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if flow, findings := compile.Parse(text, manifests.Lookup); len(errs) == 0 && flow == nil {
			t.Fatalf("Line(%q) gave %s: %+v", line, text, findings)
		}
	})
}
