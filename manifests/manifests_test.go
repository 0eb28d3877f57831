package manifests

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func object(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBuiltinManifestsAreWhole(t *testing.T) {
	all := Skills()
	if len(all) == 0 {
		t.Fatal("no manifest is embedded")
	}
	if !slices.IsSortedFunc(all, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("Skills() is not sorted by name")
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if s.Description == "" || len(s.Permissions) == 0 || !s.ProducesEvents {
				t.Error("our own manifests have description, permissions and produces_events")
			}
			for _, p := range s.Permissions {
				if !slices.Contains(Permissions(), p) {
					t.Errorf("permission %q is not in the list", p)
				}
			}
			for _, f := range slices.Concat(s.Inputs, s.Outputs) {
				if f.Description == "" {
					t.Errorf("%s has no description", f.Name)
				}
			}
			if len(s.Examples) == 0 {
				t.Error("no examples")
			}
			for i, e := range s.Examples {
				if problems := s.CheckInput(object(t, string(e))); len(problems) > 0 {
					t.Errorf("example %d: %v", i, problems)
				}
			}
			if got, ok := Lookup(s.Name); !ok || got.Digest() != s.Digest() {
				t.Errorf("Lookup(%s) = %v, %v", s.Name, got.Name, ok)
			}
			reparsed, err := ParseSkill(Raw(s.Name))
			if err != nil || reparsed.Digest() != s.Digest() {
				t.Errorf("ParseSkill(Raw(%s)): %v", s.Name, err)
			}
			again, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if round, err := ParseSkill(again); err != nil || round.Digest() != s.Digest() {
				t.Errorf("a marshalled manifest parses to another one: %v", err)
			}
		})
	}
}

func TestLookupRefusesWhatIsNoSkill(t *testing.T) {
	for _, name := range []string{"", "nope", "no.such", "../manifests", "flows"} {
		if _, ok := Lookup(name); ok || Raw(name) != nil {
			t.Errorf("Lookup(%q) found something", name)
		}
	}
}

func TestParseSkill(t *testing.T) {
	tests := map[string]struct {
		file     string
		want     Skill
		problems []Problem
	}{
		"north star": {
			file: `{"name":"github.open_pr","inputs":["title","body"],"outputs":["pr_url"],"permissions":["github:write"],"produces_events":true}`,
			want: Skill{
				Name: "github.open_pr", Permissions: []string{"github:write"}, ProducesEvents: true, SideEffect: ClassWorld,
				Inputs:  []Field{{Name: "title", Type: "any", Required: true}, {Name: "body", Type: "any", Required: true}},
				Outputs: []Field{{Name: "pr_url", Type: "any", Required: true}},
			},
		},
		"required unless it says otherwise": {
			file: `{"name":"words","inputs":[{"name":"a","type":"string"},{"name":"b","type":"any","default":1},
				{"name":"c","type":"map","required":false}],"outputs":[{"name":"d","type":"array<any>"}]}`,
			want: Skill{
				Name: "words", Permissions: []string{}, SideEffect: ClassWorld,
				Inputs: []Field{
					{Name: "a", Type: "string", Required: true}, {Name: "b", Type: "any", Default: json.RawMessage("1")}, {Name: "c", Type: "map"},
				},
				Outputs: []Field{{Name: "d", Type: "array<any>"}},
			},
		},
		"a field says its type": {
			file:     `{"name":"a.b","inputs":[{"name":"x"}],"outputs":[{"name":"y","required":true},{"name":"z","type":null}]}`,
			problems: []Problem{{"/inputs/0/type", "is missing; any stands for every type"}, {"/outputs/0/type", "is missing; any stands for every type"}, {"/outputs/1/type", "is missing; any stands for every type"}},
		},
		"a word of spritekit's own": {
			file:     `{"name":"emit"}`,
			problems: []Problem{{"/name", `"emit" is not a skill name: lower-case words joined by dots, such as git.clone, and none of spritekit's own`}},
		},
		"unknown members are tolerated, names are exact": {
			file: `{"name":"a.b","x-vendor":{"y":1},"Permissions":["*"],"side_effect":"read","inputs":[]}`,
			want: Skill{Name: "a.b", Permissions: []string{}, SideEffect: ClassRead, Inputs: []Field{}},
		},
		"typed": {
			file: `{"name":"a.b","inputs":[{"name":"n","type":"array<array<integer>>","default":[[1]]}],"input_schema":{ "type": "object" }}`,
			want: Skill{
				Name: "a.b", Permissions: []string{}, SideEffect: ClassWorld, InputSchema: json.RawMessage(`{"type":"object"}`),
				Inputs: []Field{{Name: "n", Type: "array<array<integer>>", Default: json.RawMessage(`[[1]]`)}},
			},
		},
		"given twice": {
			file: `{"name":"a.b","permissions":[],"permissions":["exec"],"inputs":[{"name":"m","type":"string","type":"any"}],
				"variants":{"input":"m","default":"x","cases":{"x":{"side_effect":"read","side_\u0065ffect":"world"},"x":{}}}}`,
			problems: []Problem{
				{"/permissions", "is given twice"},
				{"/inputs/0/type", "is given twice"},
				{"/variants/input", `"m" is no input of type string`},
				{"/variants/cases/x", "is given twice"},
			},
		},
		"null is not a string": {
			file: `{"name":"a.b","exec":["x",null],"permissions":[null],"optional_permissions":["net",null]}`,
			problems: []Problem{
				{"/permissions", "is not an array of strings"}, {"/optional_permissions", "is not an array of strings"}, {"/exec", "is not an array of strings"},
			},
		},
		"too long a timeout": {file: `{"name":"a.b","timeout_s":31622401}`, problems: []Problem{{"/timeout_s", "is more than 31622400"}}},
		"not an object":      {file: `[]`, problems: []Problem{{"", "is not a JSON object"}}},
		"null":               {file: `null`, problems: []Problem{{"", "is not a JSON object"}}},
		"all problems at once": {
			file: `{"name":"Git","description":1,"inputs":["a","a",7,{"name":"b","type":"text"},{"name":"c","type":"integer","default":"1"}],
				"permissions":["git push"],"side_effect":"none","timeout_s":-1,"exec":[],"variants":{"input":"a","default":"x","cases":{}}}`,
			problems: []Problem{
				{"/name", `"Git" is not a skill name: lower-case words joined by dots, such as git.clone, and none of spritekit's own`},
				{"/description", "is not a string"},
				{"/inputs/1", "a is declared twice"},
				{"/inputs/2", "is not a JSON object"},
				{"/inputs/3/type", `"text" is none of string, integer, number, boolean, map, array, array<T>, any`},
				{"/inputs/4/default", "is a string, want integer"},
				{"/permissions/0", `"git push" is not a permission such as fs:read`},
				{"/side_effect", `"none" is none of read, idempotent, sprite, world`},
				{"/timeout_s", "is not positive"},
				{"/exec", "names no program"},
				{"/variants/input", `"a" is no input of type string`},
				{"/variants/default", `"x" is none of the cases`},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSkill([]byte(test.file))
			var invalid *InvalidError
			var problems []Problem
			if errors.As(err, &invalid) {
				problems = invalid.Problems
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("skill (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSkillRefusesHugeFiles(t *testing.T) {
	if _, err := ParseSkill(make([]byte, maxManifest+1)); err == nil {
		t.Error("a manifest beyond the limit was read")
	}
}

func TestCheckInput(t *testing.T) {
	s := Skill{Name: "a.b", Inputs: []Field{
		{Name: "s", Type: "string", Required: true},
		{Name: "i", Type: "integer"},
		{Name: "n", Type: "number"},
		{Name: "l", Type: "array<string>"},
		{Name: "m", Type: "map"},
		{Name: "any"},
	}}
	tests := map[string]struct {
		input string
		want  []Problem
	}{
		"good":           {`{"s":"","i":-3,"n":3.5,"l":["a"],"m":{},"any":[1],"$schema":"x"}`, nil},
		"null optionals": {`{"s":"x","i":null,"l":null,"any":null}`, nil},
		"all at once": {`{"i":3.0,"n":"1","l":["a",2],"m":[],"x/y":1}`, []Problem{
			{"/i", "is a fractional number, want integer"},
			{"/l/1", "is an integer, want string"},
			{"/m", "is an array, want map"},
			{"/n", "is a string, want number"},
			{"/s", "is required"},
			{"/x~1y", "is not an input of a.b (it takes s, i, n, l, m, any)"},
		}},
		"null required":   {`{"s":null}`, []Problem{{"/s", "is null, want string"}}},
		"integer too big": {`{"s":"","i":9223372036854775808}`, []Problem{{"/i", "is an integer beyond 64 bits"}}},
		"exponent":        {`{"s":"","i":1e3}`, []Problem{{"/i", "is a fractional number, want integer"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, s.CheckInput(object(t, test.input))); diff != "" {
				t.Errorf("CheckInput(%s) (-want +got):\n%s", test.input, diff)
			}
		})
	}
	if got := (Skill{Name: "a.b"}).CheckInput(object(t, `{"x":1}`)); got != nil {
		t.Errorf("a manifest without inputs takes any, got %v", got)
	}
}

func TestPushClassAndPermissionsFollowTheMode(t *testing.T) {
	push, ok := Lookup("git.push")
	if !ok {
		t.Fatal("git.push has no manifest")
	}
	tests := map[string]struct {
		class       Class
		permissions []string
	}{
		`{}`:                 {ClassSprite, []string{"git:read"}},
		`{"mode":null}`:      {ClassSprite, []string{"git:read"}},
		`{"mode":"request"}`: {ClassSprite, []string{"git:read"}},
		`{"mode":"direct"}`:  {ClassWorld, []string{"git:push"}},
		`{"mode":"other"}`:   {ClassWorld, []string{"git:push", "git:read"}},
		`{"mode":7}`:         {ClassWorld, []string{"git:push", "git:read"}},
	}
	for input, want := range tests {
		class, permissions := push.Effective(object(t, input))
		if class != want.class || !slices.Equal(permissions, want.permissions) {
			t.Errorf("Effective(%s) = %s %v, want %s %v", input, class, permissions, want.class, want.permissions)
		}
	}
	want := []Problem{{"/mode", `"other" is none of direct, request`}}
	if diff := cmp.Diff(want, push.CheckInput(object(t, `{"mode":"other"}`))); diff != "" {
		t.Error(diff)
	}
}

// Each agent of a shipped flow gets the variables that its run was started with (--agent-env).
func TestFlowsPassTheAgentsVariables(t *testing.T) {
	var check func(flow string, v any)
	check = func(flow string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				check(flow, e)
			}
		case map[string]any:
			if args, ok := v["args"].(map[string]any); ok && v["tool"] == "agent.run" {
				if ref, _ := args["env_allow"].(map[string]any); ref["ref"] != "$ctx.agent_env" {
					t.Errorf("%s: the call %v passes env_allow %v, not $ctx.agent_env", flow, v["id"], args["env_allow"])
				}
			}
			for _, e := range v {
				check(flow, e)
			}
		}
	}
	for _, name := range Flows() {
		text, _ := Flow(name)
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(name, doc)
	}
}
