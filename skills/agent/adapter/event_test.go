package adapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/fault"
)

// TestRulesApply checks that a value of an unexpected type counts as absent, and that a list or object equals no condition.
func TestRulesApply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, rule, line, want string }{
		{"a member", `{"is":"text","take":{"text":"a.b"}}`, `{"a":{"b":"hello"}}`, `text text=hello`},
		{"an index", `{"is":"text","take":{"text":"a.1"}}`, `{"a":["x","y"]}`, `text text=y`},
		{"an index beyond", `{"is":"text","take":{"text":"a.2"}}`, `{"a":["x","y"]}`, `text`},
		{"a negative index", `{"is":"text","take":{"text":"a.-1"}}`, `{"a":["x","y"]}`, `text`},
		{"a member of a text", `{"is":"text","take":{"text":"a.b"}}`, `{"a":"b"}`, `text`},
		{"a condition", `{"is":"end","when":{"type":"result"}}`, `{"type":"other"}`, ``},
		{"absent", `{"is":"end","when":{"type":null}}`, `{}`, `end`},
		{"null is absent", `{"is":"end","when":{"type":null}}`, `{"type":null}`, `end`},
		{"present", `{"is":"end","when":{"type":null}}`, `{"type":""}`, ``},
		{"several", `{"is":"end","when":{"type":["a",null]}}`, `{}`, `end`},
		{"none of several", `{"is":"end","when":{"type":["a","b"]}}`, `{"type":"c"}`, ``},
		{"all conditions", `{"is":"end","when":{"a":1,"b":true}}`, `{"a":1,"b":false}`, ``},
		{"a list is not equal", `{"is":"end","when":{"type":"a"}}`, `{"type":["a"]}`, ``},
		{"a number is not a text", `{"is":"end","when":{"n":1}}`, `{"n":"1"}`, ``},
		{"each", `{"is":"text","when":{"on":true},"each":"list","where":{"k":"t"},"take":{"text":"v","delta":"/id"}}`, `{"on":true,"id":"i","list":[{"k":"t","v":"1"},{"k":"u","v":"2"},7,{"k":"t","v":"3"}]}`, `text delta=i text=1; text delta=i text=3`},
		{"each of no list", `{"is":"text","each":"list"}`, `{"list":{"a":1}}`, ``},
		{"a sum", `{"is":"usage","take":{"input":"a+b.c+d"}}`, `{"a":1,"b":{"c":2},"d":"3"}`, `usage input=3`},
		{"a sum of nothing", `{"is":"usage","take":{"input":"a+b"}}`, `{"a":"1"}`, `usage`},
		{"set goes before take", `{"is":"end","take":{"failed":"x"},"set":{"failed":true}}`, `{"x":false}`, `end failed=true`},
		{"a root that is no object", `{"is":"end","take":{"text":"a"}}`, `[1]`, `end`},
	} {
		var rule Rule
		var root any
		if err := json.Unmarshal([]byte(tc.rule), &rule); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tc.line), &root); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range Apply([]Rule{rule}, root) {
			words := []string{e.Kind}
			for _, field := range slices.Sorted(maps.Keys(e.Fields)) {
				words = append(words, field+"="+e.Text(field))
			}
			got = append(got, strings.Join(words, " "))
		}
		if got := strings.Join(got, "; "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestFieldsOfAnotherKind(t *testing.T) {
	t.Parallel()
	e := Event{Fields: map[string]any{"text": "t", "number": 2.5, "zero": 0.0, "empty": "", "off": false, "list": []any{"a", 1.0}, "none": nil}}
	for field, want := range map[string]string{
		"text": "t 0 0 true", "number": "2.5 2.5 0 true", "zero": "0 0 0 false", "empty": " 0 0 false", "off": "false 0 0 false", "list": `["a",1] 0 2 true`, "none": " 0 0 false", "absent": " 0 0 false",
	} {
		if got := fmt.Sprintf("%s %v %d %v", e.Text(field), e.Number(field), len(e.List(field)), e.Truth(field)); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
}

// TestCommandLines checks that a word of a command line is included if all of its conditions hold.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	v := Variables{"model": "m", "session": "", "session_mode": "resume", "extra_args": []string{"-x", "{model}"}, "allow": []string{"a", "b"}, "max_turns": 3.0, "env:HOME": "/h"}
	for parts, want := range map[string]string{
		`["-p","{model}"]`: `["-p" "m"]`,
		`[{"if":"model","args":["-m","{model}"]},{"if":"session","args":["-s"]},{"if":"absent","args":["-a"]}]`:                               `["-m" "m"]`,
		`[{"if":"session_mode=resume","args":["-r"]},{"if":"session_mode=new","args":["-n"]},{"if":"session_mode=","args":["-e"]}]`:           `["-r"]`,
		`[{"if":"session_mode!=new","args":["-r"]},{"if":"session_mode!=resume","args":["-n"]},{"if":"absent!=x","args":["-d"]}]`:             `["-r" "-d"]`,
		`[{"if":"model,session_mode=resume","args":["-b"]},{"if":"model,session","args":["-c"]},{"if":"session=,max_turns=3","args":["-d"]}]`: `["-b" "-d"]`,
		`[{"list":"extra_args"},{"list":"absent"},{"list":"model"},{"args":["-"],"list":"allow"}]`:                                            `["-x" "{model}" "-" "a" "b"]`,
		`["{allow}","{max_turns}","{env:HOME}/.x","{absent}","{","{}","{not a name}","{{model}}","a{model","{\"k\":\"{model}\"}"]`:            `["a,b" "3" "/h/.x" "" "{" "{}" "{not a name}" "{m}" "a{model" "{\"k\":\"m\"}"]`,
	} {
		var list []Part
		if err := json.Unmarshal([]byte(parts), &list); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", v.Argv(list)); got != want {
			t.Errorf("%s = %s, want %s", parts, got, want)
		}
	}
}

// TestRenderedTOML checks that rendered TOML can be read, has no null, and does not change the variables of the caller.
func TestRenderedTOML(t *testing.T) {
	t.Parallel()
	f := ConfigFile{Format: "toml", Content: json.RawMessage(`{"list":[1,null,"a\u007fb",{"x":null,"y z":[true]}],"none":null,"":"e","big":1e15,"t":{"n":null,"in":{"k":0.5}}}`)}
	const want = "\"\" = \"e\"\nbig = 1000000000000000\nlist = [1, \"a\\u007fb\", {\"y z\" = [true]}]\n\n[t]\n\n[t.in]\nk = 0.5\n"
	if got, err := (Variables{}).Render(f, nil); err != nil || string(got) != want {
		t.Errorf("Render = %s, %v, want %s", got, err, want)
	}
}

func TestRenderLeavesVariables(t *testing.T) {
	t.Parallel()
	v := Variables{"mcp_servers": map[string]any{"own": map[string]any{"command": "/x"}}}
	f := ConfigFile{Content: json.RawMessage(`{"servers":"{mcp_servers}"}`)}
	more := map[string]any{"servers": map[string]any{"other": map[string]any{"command": "/y"}, "own": map[string]any{"args": []any{}}}}
	if _, err := v.Render(f, more); err != nil {
		t.Fatal(err)
	}
	got, err := v.Render(f, nil)
	if want := "{\n  \"servers\": {\n    \"own\": {\n      \"command\": \"/x\"\n    }\n  }\n}\n"; err != nil || string(got) != want {
		t.Errorf("the second file is %s, %v, want %s", got, err, want)
	}
}

// TestProblemsNameTheirPlace checks the pointer of each problem.
func TestProblemsNameTheirPlace(t *testing.T) {
	t.Parallel()
	const sound = `"name":"x","programs":["x"],"events":[{"is":"end"}]`
	for adapter, want := range map[string]string{
		`{` + sound + `,"env_allow":["A","LATTICE_B"],"secrets":["C","LATTICE_D"]}`:            "/env_allow/1 /secrets/1",
		`{` + sound + `,"instructions":["{cwd}/A.md"],"skills":["{home}/s","/etc"]}`:           "/skills/1",
		`{` + sound + `,"instructions":["A.md"],"skills":["{home}/../s"]}`:                     "/instructions/0 /skills/0",
		`{` + sound + `,"session":7}`:                                                          "/session",
		`{` + sound + `,"resumes":true,"session":{"path":"{home}/x","result":"r","cal":"x"}}`:  "/session/cal",
		`{` + sound + `,"resumes":true,"session":{"path":"{home}/x","result":7}}`:              "/session/result",
		`{` + sound + `,"resumes":true,"session":{"path":"{home}/x","result":"r","call":"("}}`: "/session/call",
		`{` + sound + `,"session":null}`:                                                       "",
		`{` + sound + `,"linger_s":-1,"home":"none","cumulative":["turns"]}`:                   "/cumulative/0 /home /linger_s",
		`{` + sound + `,"output":"acp","prompt":"file"}`:                                       "/prompt",
		`{` + sound + `,"own_files":true}`:                                                     "/own_files",
		`{` + sound + `,"asks":"control"}`:                                                     "/asks",
		`null`:                                                                                 "",
	} {
		var places []string
		for _, p := range Check("", []byte(adapter)) {
			places = append(places, p.Pointer)
		}
		slices.Sort(places)
		if got := strings.Join(places, " "); got != want || adapter == "null" && len(places) != 1 {
			t.Errorf("%s has problems at %q, want %q", adapter, got, want)
		}
	}
	if got := Check("y", []byte(`{`+sound+`}`)); len(got) != 1 || !strings.Contains(got[0].Message, `named after "y"`) {
		t.Errorf("an adapter in the file of another one: %v", got)
	}
}

// TestFind checks the order: an inline adapter, a built-in one, a file. The error lists the adapters.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const own = `{"name":%q,"description":"own","output":"text","programs":["x"]}`
	write("mine", fmt.Sprintf(own, "mine"))
	write("claude", fmt.Sprintf(own, "claude"))
	write("wrong", `{"name":"wrong","argw":1}`)
	write("huge", fmt.Sprintf(own, "huge")+strings.Repeat(" ", maxAdapter))
	if err := os.Symlink("mine.json", filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if a, err := Find("mine", json.RawMessage("null"), dir); err != nil || a.Description != "own" {
		t.Errorf("Find(mine) = %+v, %v", a, err)
	}
	if a, err := Find("claude", nil, dir); err != nil || a.Description == "own" {
		t.Errorf("a file replaces the built-in adapter: %v, %v", a.Description, err)
	}
	if a, err := Find("claude", json.RawMessage(fmt.Sprintf(own, "inline")), dir); err != nil || a.Name != "inline" {
		t.Errorf("the inline adapter is not taken: %v, %v", a.Name, err)
	}
	for name, want := range map[string]string{"wrong": "bad_adapter", "huge": "unsupported", "link": "unsupported", "none": "unsupported", "../mine": "bad_input", ".hidden": "bad_input", "": "bad_input"} {
		_, err := Find(name, nil, dir)
		if e, ok := err.(*fault.Error); !ok || e.Code != want || e.Hint == "" && want != "bad_input" {
			t.Errorf("Find(%q) = %v, want the code %s", name, err, want)
		}
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	a := Adapter{Causes: []Cause{{Contains: []string{"401", "no key"}, Is: CauseAuth}, {Contains: []string{"key"}, Is: CauseRate}}, MCP: map[string]any{"a": "{command}"}}
	for words, want := range map[string]string{"error 401": CauseAuth, "there is no key": CauseAuth, "key": CauseRate, "": "", "other": ""} {
		if got := a.CauseOf(words); got != want {
			t.Errorf("CauseOf(%q) = %q, want %q", words, got, want)
		}
	}
	if !a.TakesServers() || (Adapter{}).TakesServers() || !(Adapter{Output: OutputACP}).TakesServers() || !a.Uses("command") || a.Uses("comman") {
		t.Error("TakesServers or Uses is wrong")
	}
	if diff := cmp.Diff([]string{"nothing"}, unknownVariables("{env:HOME} {model} {nothing} {not one}")); diff != "" {
		t.Errorf("unknown variables (-want +got):\n%s", diff)
	}
}
