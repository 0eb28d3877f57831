package compile

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// A golden workflow graph and the exact bytes that it is lowered to.
func TestLowering(t *testing.T) {
	source, err := os.ReadFile("testdata/branch.workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	flow, findings := Parse(source, manifests.Lookup)
	if flow == nil {
		t.Fatalf("%+v", findings)
	}
	const golden = "testdata/branch.execir.json"
	want, err := os.ReadFile(golden)
	if got := string(flow.ExecIR) + "\n"; err != nil || got != string(want) {
		if os.Getenv("UPDATE") != "" {
			err = os.WriteFile(golden, []byte(got), 0o644)
		}
		t.Errorf("ExecIR (UPDATE=1 writes it; %v):\n got %s\nwant %s", err, got, want)
	}
	program, _ := check.Parse(flow.ExecIR, manifests.Lookup)
	if program == nil || program.Digest != flow.Program.Digest {
		t.Error("the text is not the program's")
	}
}

// Layout and the order of members do not reach the bytes; what the document says does.
func TestLoweringIsDeterministic(t *testing.T) {
	lower := func(text string) string {
		flow, findings := Parse([]byte(text), manifests.Lookup)
		if flow == nil {
			t.Fatalf("%s: %+v", text, findings)
		}
		return string(flow.ExecIR)
	}
	a := lower(`{"workflow_version":"1.0","nodes":[{"id":"a","type":"fs.write","in":{"path":"p","content":"c","mode":"0644"}}]}`)
	b := lower(` { "nodes":[ {"in":{"mode":"0644","content":"c","path":"\u0070"},"type":"fs.write","id":"a"}],"workflow_version" : "1.0"}`)
	c := lower(`{"workflow_version":"1.0","nodes":[{"id":"a","type":"tool","tool":"fs.write","in":{"path":"p","content":"d","mode":"0644"}}]}`)
	if a != b {
		t.Errorf("equal documents, other bytes:\n%s\n%s", a, b)
	}
	if a == c {
		t.Error("other documents, equal bytes")
	}
	for range 20 {
		if again := lower(`{"workflow_version":"1.0","nodes":[{"id":"a","type":"fs.write","in":{"path":"p","content":"c","mode":"0644"}}]}`); again != a {
			t.Fatalf("%s\n%s", a, again)
		}
	}
}

// Findings about the lowered program are told where the author of the workflow sees the fault, each once.
func TestFindings(t *testing.T) {
	write := `{"id":"a","type":"fs.write","in":{"path":"p","content":"c"}}`
	doc := func(rest string) string { return `{"workflow_version":"1.0",` + rest + `}` }
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"fine":                    {doc(`"nodes":[` + write + `]`), nil},
		"open members":            {doc(`"meta":1,"x-view":{},"$schema":"s","nodes":[{"id":"a","type":"fs.read","in":{"path":"p"},"label":"L","x-at":[1,2],"meta":{}}]`), nil},
		"no version":              {`{"nodes":[]}`, []string{"version_missing "}},
		"two versions":            {`{"workflow_version":"1.0","execir_version":"1.0"}`, []string{"version_ambiguous "}},
		"a plan":                  {`{"planir_version":"1.0"}`, []string{"field_missing /goal", "field_missing /steps"}},
		"newer":                   {`{"workflow_version":"1.1","nodes":1}`, []string{"version_unsupported /workflow_version"}},
		"newer major":             {`{"workflow_version":"2.0"}`, []string{"version_unsupported /workflow_version"}},
		"newer ExecIR":            {`{"execir_version":"1.7"}`, []string{"version_unsupported /execir_version"}},
		"version is a number":     {`{"workflow_version":1}`, []string{"field_missing /nodes", "version_invalid /workflow_version"}},
		"no JSON":                 {`{"workflow_version":`, []string{"json_invalid "}},
		"no object":               {`[]`, []string{"type_mismatch "}},
		"empty":                   {doc(`"nodes":[]`), []string{"field_missing /nodes"}},
		"twice and unknown":       {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"p","path":"q"},"colour":1}]`), []string{"field_unknown /nodes/0/colour", "key_duplicate /nodes/0/in/path"}},
		"no type":                 {doc(`"nodes":[{"id":"a"}]`), []string{"field_missing /nodes/0/type"}},
		"unknown skill":           {doc(`"nodes":[{"id":"a","type":"git.clown"}]`), []string{"tool_unknown /nodes/0/type"}},
		"unknown tool":            {doc(`"nodes":[{"id":"a","type":"tool","tool":"git.clown"}]`), []string{"tool_unknown /nodes/0/tool"}},
		"tool without a name":     {doc(`"nodes":[{"id":"a","type":"tool"}]`), []string{"field_missing /nodes/0/tool"}},
		"two skills":              {doc(`"nodes":[{"id":"a","type":"fs.read","tool":"fs.write","in":{"path":"p"}}]`), []string{"field_not_allowed /nodes/0/tool"}},
		"abstract step":           {doc(`"nodes":[{"id":"a","type":"extract_intent","in":"user_message"}]`), []string{"type_unsupported /nodes/0/type"}},
		"unknown type":            {doc(`"nodes":[{"id":"a","type":"tol"}]`), []string{"type_unknown /nodes/0/type"}},
		"unknown input":           {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"p","pfad":"q"}}]`), []string{"arg_unknown /nodes/0/in/pfad"}},
		"missing input":           {doc(`"nodes":[{"id":"a","type":"fs.read"}]`), []string{"arg_missing /nodes/0/in/path"}},
		"mistyped input":          {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":3}}]`), []string{"arg_type /nodes/0/in/path"}},
		"inputs are no object":    {doc(`"nodes":[{"id":"a","type":"fs.read","in":"path"}]`), []string{"arg_type /nodes/0/in"}},
		"bad ids":                 {doc(`"nodes":[{"id":"a b","type":"fs.read","in":{"path":"p"}}]`), []string{"id_invalid /nodes/0/id"}},
		"same id":                 {doc(`"nodes":[` + write + `,` + write + `],"entry_node":"a"`), []string{"id_duplicate /nodes/1/id"}},
		"bad reference":           {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"$step.x"}}]`), []string{"ref_invalid /nodes/0/in/path"}},
		"unset reference":         {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"$vars.b.path"}}]`), []string{"ref_unset /nodes/0/in/path"}},
		"unknown output":          {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"$vars.a.pfad"}}],"edges":[{"from":"a","to":"b"}]`), []string{"member_unknown /nodes/1/in/path"}},
		"output of another type":  {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"$vars.a.size"}}],"edges":[{"from":"a","to":"b"}]`), []string{"port_type /nodes/1/in/path"}},
		"no entry":                {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"p"}}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"a"}]`), []string{"cycle_unbounded /edges/1", "entry_missing /entry_node"}},
		"two entries":             {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"p"}}]`), []string{"entry_ambiguous /entry_node"}},
		"unknown entry":           {doc(`"entry_node":"z","nodes":[` + write + `]`), []string{"node_unknown /entry_node"}},
		"two ways at once":        {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"p"}},{"id":"c","type":"fs.read","in":{"path":"p"}}],"edges":[{"from":"a","to":"b"},{"from":"a","to":"c"}]`), []string{"edges_ambiguous /edges/1"}},
		"edge to nowhere":         {doc(`"nodes":[` + write + `],"edges":[{"from":"a","to":"b"}]`), []string{"node_unknown /edges/0/to"}},
		"bad condition":           {doc(`"nodes":[` + write + `,{"id":"b","type":"fs.read","in":{"path":"p"}}],"edges":[{"from":"a","to":"b","when":{"op":"sometimes"}}]`), []string{"cond_op_unknown /edges/0/when/op"}},
		"inexact number":          {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"p","offset":9007199254740993}}]`), []string{"number_inexact /nodes/0/in/offset"}},
		"catch to nowhere":        {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"p"},"catch":[{"on":["ALL"],"to":"b"}]}]`), []string{"node_unknown /nodes/0/catch/0/to"}},
		"several at once":         {doc(`"nodes":[{"id":"a","type":"fs.raed"},{"id":"b","type":"fs.read","in":{"pfad":"p"}}],"edges":[{"from":"a","to":"c"}],"entry_node":"a"`), []string{"node_unknown /edges/0/to", "tool_unknown /nodes/0/type", "node_unreachable /nodes/1", "arg_missing /nodes/1/in/path", "arg_unknown /nodes/1/in/pfad"}},
		"weaker class":            {doc(`"nodes":[{"id":"a","type":"fs.write","side_effect":"read","in":{"path":"p","content":"c"}}]`), []string{"class_weakened /nodes/0/side_effect"}},
		"output nowhere":          {doc(`"output":"$vars.b","nodes":[` + write + `]`), []string{"ref_unset /output"}},
		"an id with a dot":        {doc(`"output":"$vars['a.b'].path","nodes":[{"id":"a.b","type":"fs.read","in":{"path":"p"}}]`), nil},
		"output target no target": {doc(`"nodes":[{"id":"a","type":"fs.read","in":{"path":"p"},"outputs":{"result":"x"}}]`), []string{"target_invalid /nodes/0/outputs/result"}},
	} {
		t.Run(name, func(t *testing.T) {
			flow, findings := Parse([]byte(c.doc), manifests.Lookup)
			var got []string
			for _, f := range findings {
				got = append(got, f.Code+" "+f.Pointer)
				if in := strings.Contains(f.Pointer, "nodes/") || strings.Contains(f.Pointer, "edges/") || strings.Contains(f.Pointer, "steps/"); f.Hint == "" || in != (f.Node != "") {
					t.Errorf("finding without a hint or with the wrong node: %+v", f)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings of %s (-want +got):\n%s%+v", c.doc, diff, findings)
			}
			if (flow == nil) != finding.HasErrors(findings) {
				t.Errorf("flow %v with findings %v", flow, findings)
			}
		})
	}
}

// The specification's own example of a workflow graph is read as it stands; what is not lowered yet, and the skills that
// are not here, are named, all at once.
func TestSpecifiedGraph(t *testing.T) {
	const graph = `{
  "workflow_version": "1.0",
  "nodes": [
    { "id": "extract", "type": "extract_intent", "in": "user_message" },
    { "id": "contact_search", "type": "tool", "tool": "contacts.search" },
    { "id": "contact_choose", "type": "choose" },
    { "id": "attach_search", "type": "tool", "tool": "drive.search" },
    { "id": "attach_choose", "type": "choose" },
    { "id": "pack", "type": "pack" },
    { "id": "draft", "type": "write" },
    { "id": "send", "type": "tool", "tool": "gmail.send" }
  ],
  "edges": [
    { "from": "extract", "to": "contact_search" },
    { "from": "contact_search", "to": "contact_choose" },
    { "from": "contact_choose", "to": "attach_search" },
    { "from": "attach_search", "to": "attach_choose" },
    { "from": "attach_choose", "to": "pack" },
    { "from": "pack", "to": "draft" },
    { "from": "draft", "to": "send" }
  ]
}`
	flow, findings := Parse([]byte(graph), manifests.Lookup)
	var got []string
	for _, f := range findings {
		got = append(got, f.Code+" "+f.Pointer)
	}
	want := []string{
		"type_unsupported /nodes/0/type", "tool_unknown /nodes/1/tool", "type_unsupported /nodes/2/type", "tool_unknown /nodes/3/tool",
		"type_unsupported /nodes/4/type", "type_unsupported /nodes/5/type", "type_unsupported /nodes/6/type", "tool_unknown /nodes/7/tool",
	}
	if diff := cmp.Diff(want, got); diff != "" || flow != nil {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestToldMapsPreflight(t *testing.T) {
	flow, findings := Parse([]byte(`{"workflow_version":"1.0","nodes":[{"id":"a","type":"git.push","in":{"branch":"b","mode":"direct"}}]}`), manifests.Lookup)
	if flow == nil {
		t.Fatal(findings)
	}
	told := flow.Told(flow.Program.Preflight([]string{"fs:read"}))
	if len(told) == 0 || told[0].Pointer != "/nodes/0/type" {
		t.Errorf("Told = %+v", told)
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"string", "string", true}, {"", "string", true}, {"map", "", true}, {"integer", "number", true}, {"number", "integer", false},
		{"array", "array<string>", true}, {"array<array<integer>>", "array<array<number>>", true}, {"array<string>", "array<integer>", false},
		{"string", "array<string>", false},
	} {
		if got := isAssignable(c.from, c.to); got != c.want {
			t.Errorf("fits(%q, %q) = %v", c.from, c.to, got)
		}
	}
}

// Whatever comes in, an answer comes out: a flow whose text is its own program, or an error.
func FuzzParse(f *testing.F) {
	source, err := os.ReadFile("testdata/branch.workflow.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(source)
	f.Add([]byte(`{"workflow_version":"1.0","nodes":[{"id":"a.b","type":"tool","tool":"fs.read","in":{"path":"$in.p"},"outputs":{"content":"$tmp.x"}}],"edges":[{"from":"a.b","to":"a.b","max_traversals":2}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		flow, findings := Parse(data, manifests.Lookup)
		if (flow == nil) != finding.HasErrors(findings) {
			t.Fatalf("flow %v with findings %v", flow, findings)
		}
		if flow == nil || flow.Workflow == nil {
			return
		}
		again, findings := Parse(flow.ExecIR, manifests.Lookup)
		if again == nil || again.Program.Digest != flow.Program.Digest || !json.Valid(flow.ExecIR) {
			t.Fatalf("lowered to %s: %v", flow.ExecIR, findings)
		}
	})
}
