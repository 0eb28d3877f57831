package adapter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheBuiltInAdaptersAreSound(t *testing.T) {
	t.Parallel()
	files, err := builtin.ReadDir("adapters")
	if err != nil || len(files) != 9 {
		t.Fatalf("%d adapters, %v, want 9", len(files), err)
	}
	for _, f := range files {
		a, err := Find(strings.TrimSuffix(f.Name(), ".json"), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if a.Description == "" {
			t.Errorf("%s does not say what it is", a.Name)
		}
	}
}

func TestAdaptersAreChecked(t *testing.T) {
	t.Parallel()
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
		"our variable":        {`{"name":"x","env":{"LATTICE_CALL_ID":"1"},` + end + `}`, "/env/LATTICE_CALL_ID is not a variable"},
		"our variable passed": {`{"name":"x","secrets":["LATTICE_PERMISSIONS"],` + end + `}`, "cannot be allowed"},
		"file elsewhere":      {`{"name":"x","files":[{"path":"/etc/passwd","content":{}}],` + end + `}`, "/files/0/path"},
		"file by dots":        {`{"name":"x","files":[{"path":"{home}/../../x","content":{}}],` + end + `}`, "/files/0/path"},
		"content":             {`{"name":"x","files":[{"path":"{home}/x","content":[]}],` + end + `}`, "/files/0/content is not an object"},
		"no end":              {`{"name":"x","programs":["x"]}`, "/events has no rule for the end"},
		"kind":                {`{"name":"x","events":[{"is":"fin"}]}`, `/events/0/is "fin" is not a kind`},
		"field":               {`{"name":"x","events":[{"is":"end","take":{"color":"c"}}]}`, "/events/0/take/color is not a field of end"},
		"output":              {`{"name":"x","output":"xml",` + end + `}`, `/output is "xml", not one of`},
		"lock elsewhere":      {`{"name":"x","locks":["{cwd}/lock"],` + end + `}`, "/locks/0"},
		"cause":               {`{"name":"x","causes":[{"contains":["x"],"is":"bad luck"}],` + end + `}`, "/causes/0/is"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseStrictly([]byte(test.adapter), "", "x.json")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("parseAdapter = %v, want %q", err, test.want)
			}
		})
	}
}

func TestConfigurationIsRendered(t *testing.T) {
	t.Parallel()
	v := Variables{"model": "m\"1", "mcp_servers": map[string]any{"a.b": map[string]any{"command": "/x", "args": []string{"1", "2"}}}, "max_turns": 3.0}
	f := ConfigFile{Content: json.RawMessage(`{"model":"{model}","absent":"{session}","n":"{max_turns}","t":"as {model}","on":false,"mcp_servers":"{mcp_servers}"}`)}
	got, err := v.Render(f, map[string]any{"on": true})
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
	if got, err = v.Render(f, nil); err != nil {
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
