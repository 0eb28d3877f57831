package agent

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, name string) adapter {
	t.Helper()
	a, err := findAdapter(input{Agent: name}, "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheBuiltInAdaptersAreSound(t *testing.T) {
	files, err := builtin.ReadDir("adapters")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d adapters, %v, want 6", len(files), err)
	}
	for _, f := range files {
		a := load(t, strings.TrimSuffix(f.Name(), ".json"))
		if a.Description == "" {
			t.Errorf("%s does not say what it is", a.Name)
		}
	}
}

func TestAdaptersAreChecked(t *testing.T) {
	const end = `"events":[{"is":"end"}]`
	tests := map[string]struct{ adapter, want string }{
		"sound":          {`{"name":"x","programs":["x"],` + end + `}`, ""},
		"no JSON":        {`{`, "unexpected end of JSON"},
		"unknown member": {`{"name":"x","argw":[]}`, `/argw is not known`},
		"another case":   {`{"name":"x","Argv":[]}`, `/Argv is not known`},
		"all at once": {`{"name":7,"argv":["a",{"iff":"x"}],"env":{"A~B":[1]},"events":[{"is":"end","take":{"text":1}}],"resumes":"yes"}`,
			`/argv/1/iff is not known; /env/A~0B is not a string; /events/0/take/text is not a string; /name is not a string; /resumes is not true or false`},
		"a list":              {`[]`, "is not an object"},
		"no name":             {`{"programs":["x"],` + end + `}`, "/name is not made of"},
		"prompt in argv":      {`{"name":"x","argv":["{prompt}"],` + end + `}`, "/argv/0 puts the prompt on the command line"},
		"unknown variable":    {`{"name":"x","argv":["-m",{"if":"model","args":["{modle}"]}],` + end + `}`, "/argv/1 names {modle}"},
		"unknown condition":   {`{"name":"x","argv":[{"if":"mood=good","args":["-x"]}],` + end + `}`, "/argv/0/if names"},
		"our variable":        {`{"name":"x","env":{"LATTICE_CALL_ID":"1"},` + end + `}`, "/env/LATTICE_CALL_ID is no variable"},
		"our variable passed": {`{"name":"x","secrets":["LATTICE_PERMISSIONS"],` + end + `}`, "cannot be allowed"},
		"file elsewhere":      {`{"name":"x","files":[{"path":"/etc/passwd","content":{}}],` + end + `}`, "/files/0/path"},
		"file by dots":        {`{"name":"x","files":[{"path":"{home}/../../x","content":{}}],` + end + `}`, "/files/0/path"},
		"content":             {`{"name":"x","files":[{"path":"{home}/x","content":[]}],` + end + `}`, "/files/0/content is no object"},
		"no end":              {`{"name":"x","programs":["x"]}`, "/events has no rule for the end"},
		"kind":                {`{"name":"x","events":[{"is":"fin"}]}`, `/events/0/is "fin" is no kind`},
		"field":               {`{"name":"x","events":[{"is":"end","take":{"color":"c"}}]}`, "/events/0/take/color is no field of end"},
		"output":              {`{"name":"x","output":"xml",` + end + `}`, `/output is "xml", not one of`},
		"cause":               {`{"name":"x","causes":[{"contains":["x"],"is":"bad luck"}],` + end + `}`, "/causes/0/is"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseAdapter([]byte(test.adapter), "", "x.json")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("parseAdapter = %v, want %q", err, test.want)
			}
		})
	}
}

func TestEventsInOurWords(t *testing.T) {
	type totals struct {
		Session, Final string
		Turns          int
		Calls, Failed  int
		Usage          usage
		Cost           float64
		Ends           int
	}
	tests := map[string]totals{
		"claude":   {"498c8213-208d-452c-9ccd-27a4bbcb192d", "all done", 2, 1, 0, usage{Input: 2000, Output: 100}, 0.01, 1},
		"codex":    {"01a1fd8c-7802-79a2-a6a0-dca1a3edd643", "all done", 3, 1, 0, usage{Input: 2000, Output: 100}, 0, 1},
		"gemini":   {"g-1", "all done", 1, 1, 1, usage{Input: 2000, Cached: 500, Output: 100}, 0, 1},
		"opencode": {"ses_1", "all done", 2, 1, 0, usage{Input: 2000, Cached: 100, Output: 100, Reasoning: 10}, 0.009, 1},
		"openclaw": {"oc-1", "all done", 2, 1, 0, usage{Input: 2000, Cached: 200, Output: 100}, 0.01, 1},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			files, _ := filepath.Glob("testdata/" + name + ".json*")
			if len(files) != 1 {
				t.Fatalf("recordings: %v", files)
			}
			raw, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			a, tally := load(t, name), newTally()
			for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
				var value any
				if err := d.Decode(&value); err != nil {
					t.Fatal(err)
				}
				for _, s := range apply(a.Events, value) {
					tally.add(s)
				}
			}
			u := tally.used(usage{})
			got := totals{tally.session, tally.final, tally.turns, tally.calls.Total, tally.calls.Failed, u, math.Round(tally.costs(0, u, nil).USD*1e6) / 1e6, len(tally.ends)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("totals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigurationIsRendered(t *testing.T) {
	v := variables{"model": "m\"1", "mcp_servers": map[string]any{"a.b": map[string]any{"command": "/x", "args": []string{"1", "2"}}}, "max_turns": 3.0}
	f := configFile{Content: json.RawMessage(`{"model":"{model}","absent":"{session}","n":"{max_turns}","t":"as {model}","on":false,"mcp_servers":"{mcp_servers}"}`)}
	got, err := v.render(f, map[string]any{"on": true})
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(got, &object); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"model": "m\"1", "n": 3.0, "t": "as m\"1", "on": true,
		"mcp_servers": map[string]any{"a.b": map[string]any{"command": "/x", "args": []any{"1", "2"}}},
	}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	f.Format = "toml"
	if got, err = v.render(f, nil); err != nil {
		t.Fatal(err)
	}
	const toml = `model = "m\"1"
n = 3
on = false
t = "as m\"1"

[mcp_servers]

[mcp_servers."a.b"]
args = ["1", "2"]
command = "/x"
`
	if diff := cmp.Diff(toml, string(got)); diff != "" {
		t.Errorf("TOML (-want +got):\n%s", diff)
	}
}
