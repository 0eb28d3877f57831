package compile

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/manifests/steps"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

var update = flag.Bool("update", false, "write testdata anew")

func planned(steps string, more ...string) string {
	doc := `{"planir_version":"1.0","goal":"g","steps":[` + steps + `]`
	for _, m := range more {
		doc += "," + m
	}
	return doc + "}"
}

func TestBuiltinRules(t *testing.T) {
	files := steps.Builtin()
	if len(files) == 0 {
		t.Fatal("there are no rules")
	}
	for name, data := range files {
		rule, findings := ParseRule(data)
		if len(findings) > 0 || rule.Type != name || rule.Description == "" {
			t.Errorf("rule %s: %+v", name, findings)
		}
	}
	for _, name := range []string{"EXTRACT_INTENT", "FIND_CONTACT", "FIND_ATTACHMENT", "DRAFT_AND_SEND_EMAIL", "CLONE", "EDIT", "TEST", "COMMIT", "PUSH", "ASK_HUMAN", "RUN_AGENT"} {
		if _, ok := BuiltinRules()[name]; !ok {
			t.Errorf("there is no rule for %s", name)
		}
	}
}

// TestPlanLowered holds the bytes that a plan gives, and that they do not depend on the order of its members.
func TestPlanLowered(t *testing.T) {
	const plan = `{"planir_version":"1.0","id":"fix","goal":"Make the tests pass","steps":[
		{"id":"get","type":"CLONE"},
		{"id":"fix","type":"RUN_AGENT","inputs":{"prompt":{"concat":["Fix: ","$in.issue"]},"cwd":"$vars.get.clone.dest"}},
		{"id":"check","type":"TEST","inputs":{"cwd":"$vars.get.clone.dest"},"outputs":{"report":"$vars.report"}},
		{"id":"sure","type":"ASK_HUMAN","inputs":{"question":"Commit?","details":"$vars.report.counts"}},
		{"id":"keep","type":"COMMIT","inputs":{"message":"Fix it","repo":"$vars.get.clone.dest"},"outputs":{"commit":"$vars.commit"}},
		{"id":"send","type":"PUSH","inputs":{"repo":"$vars.get.clone.dest"}}
	],"output":{"commit":"$vars.commit.commit"}}`
	flow, findings := Parse([]byte(plan), manifests.Lookup)
	if flow == nil || len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	if flow.Plan == nil || flow.Workflow != nil {
		t.Error("the flow does not say what it was")
	}
	var text bytes.Buffer
	if err := json.Indent(&text, flow.ExecIR, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "plan.execir.json")
	if *update {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Error(diff)
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(plan), &tree); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Parse(sorted, manifests.Lookup)
	if again == nil || !bytes.Equal(again.ExecIR, flow.ExecIR) || again.Program.Digest != flow.Program.Digest {
		t.Error("the same plan in another order of members gives other bytes")
	}
}

func TestPlanFindings(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"everything at once": {
			planned(`{"id":"S 1","type":"CLONE"},{"id":"a","type":"CLONEE"},{"id":"b","type":"EDIT","inputs":{"path":"p","edit":[]},"outputs":{"edits":"$vars.e"}},{"id":"b","type":"TEST"}`,
				`"constraints":{"tone":"dry"}`, `"golas":1`),
			[]string{"constraint_unused /constraints/tone", "field_unknown /golas", "id_invalid /steps/0/id", "type_unknown /steps/1/type",
				"input_unknown /steps/2/inputs/edit", "input_missing /steps/2/inputs/edits", "port_unknown /steps/2/outputs/edits", "id_duplicate /steps/3/id"},
		},
		"a reference to what no step has written": {
			planned(`{"id":"a","type":"TEST","inputs":{"cwd":"$vars.nowhere.dest"}}`),
			[]string{"ref_unset /steps/0/inputs/cwd"},
		},
		"a step that reads what a later one writes": {
			planned(`{"id":"a","type":"ASK_HUMAN","inputs":{"question":"?","details":"$vars.r"}},{"id":"b","type":"TEST","outputs":{"report":"$vars.r"}}`),
			[]string{"ref_unset /steps/0/inputs/details"},
		},
		"a target that cannot be written": {
			planned(`{"id":"a","type":"TEST","outputs":{"report":"$in.r"}}`),
			[]string{"target_invalid /steps/0/outputs/report"},
		},
		"a wrong literal": {
			planned(`{"id":"a","type":"TEST","inputs":{"cwd":7}}`),
			[]string{"arg_type /steps/0/inputs/cwd"},
		},
		"newer":     {`{"planir_version":"1.1","goal":"g","steps":[]}`, []string{"version_unsupported /planir_version"}},
		"two kinds": {`{"planir_version":"1.0","execir_version":"1.0"}`, []string{"version_ambiguous "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := Parse([]byte(c.doc), manifests.Lookup)
			var got []string
			for _, f := range findings {
				got = append(got, f.Code+" "+f.Pointer)
				if in := strings.Contains(f.Pointer, "nodes/") || strings.Contains(f.Pointer, "edges/") || strings.Contains(f.Pointer, "steps/"); f.Hint == "" || in != (f.Node != "") {
					t.Errorf("finding without a hint or with the wrong node: %+v", f)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, findings)
			}
		})
	}
}

// TestRulesOfUsers lowers by a rule of somebody else's, which uses a constraint, a default and a place of its own.
func TestRulesOfUsers(t *testing.T) {
	rules, err := WithRules(map[string][]byte{"note.json": []byte(`{"step_version":"1.0","type":"NOTE","description":"Writes a note.",
		"inputs":[{"name":"text","required":true},{"name":"path","default":"note.txt"}],"outputs":[{"name":"note"}],
		"constraints":[{"name":"tone","default":"plain"}],"entry_node":"write",
		"nodes":[{"id":"write","op":"TOOL_CALL","tool":"fs.write","args":{"path":"$arg.path","content":{"concat":["$constraint.tone",": ","$arg.text"]}},"outputs":{"result":"$local.w"}},
			{"id":"say","op":"SET","set":{"$port.note":"$local.w.path"}}],"edges":[{"from":"write","to":"say"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	flow, findings := ParseBy([]byte(planned(`{"id":"n","type":"NOTE","inputs":{"text":"hi"}}`, `"constraints":{"tone":"$5"}`)), manifests.Lookup, rules)
	if flow == nil {
		t.Fatalf("%+v", findings)
	}
	for _, want := range []string{`"content":{"concat":[{"lit":"$5"},": ","hi"]}`, `"path":"note.txt"`, `"result":"$tmp.n.w"`, `"$vars.n.note":"$tmp.n.w.path"`, `"id":"n.write"`} {
		if !strings.Contains(string(flow.ExecIR), want) {
			t.Errorf("no %s in %s", want, flow.ExecIR)
		}
	}
	if _, err := WithRules(map[string][]byte{"bad.json": []byte(`{"step_version":"1.0","type":"bad","description":"","entry_node":"x","nodes":[{"id":"a","args":"$arg.none"}]}`)}); err == nil ||
		!strings.Contains(err.Error(), "bad.json") || !strings.Contains(err.Error(), "$arg.none is not declared") {
		t.Errorf("error %v", err)
	}
}

// TestNodesOfRulesWithoutIDs checks that a step is refused if the rule makes a node without an id of it.
func TestNodesOfRulesWithoutIDs(t *testing.T) {
	for name, node := range map[string]string{
		"a subgraph":             `{"id":"a","op":"SUBGRAPH","ref":"s@sha256:00"}`,
		"a ref that is left out": `{"id":"a","op":"SET","ref":"$arg.none"}`,
		"a ref that is a value":  `{"id":"a","op":"SET","ref":"$arg.some"}`,
		"an id that is a number": `{"id":"$arg.some","op":"SET"}`,
		"an id that is left out": `{"id":"$arg.none","op":"SET"}`,
		"a mark that adds a ref": `{"id":"a","op":"SET","$arg.member":5}`,
	} {
		rules, err := WithRules(map[string][]byte{"x.json": fmt.Appendf(nil, `{"step_version":"1.0","type":"X","description":"Does nothing.",
			"inputs":[{"name":"none"},{"name":"some","default":5},{"name":"member","default":"ref"}],"entry_node":%s,"nodes":[%s]}`, strings.TrimPrefix(strings.SplitN(node, ",", 2)[0], `{"id":`), node)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		flow, findings := ParseBy([]byte(planned(`{"id":"n","type":"X"}`)), manifests.Lookup, rules)
		if flow != nil || !slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Code == "rule_node" }) {
			t.Errorf("%s: findings %+v, want rule_node", name, findings)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(planned(`{"id":"a","type":"TEST","inputs":{"cwd":"$vars.x"}}`)))
	f.Add([]byte(planned(`{"id":"a","type":"COMMIT","inputs":{"message":{"ref":"$in.x"}},"outputs":{"commit":"$tmp.c"}}`, `"constraints":{"a":1}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		flow, findings := Parse(data, manifests.Lookup)
		if (flow == nil) != finding.HasErrors(findings) {
			t.Fatalf("flow %v with findings %+v", flow != nil, findings)
		}
		if flow != nil {
			if again, findings := Parse(flow.ExecIR, manifests.Lookup); again == nil {
				t.Fatalf("the lowered program is refused: %+v", findings)
			}
		}
	})
}

func FuzzRule(f *testing.F) {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range steps.Builtin() {
			if !yield(name) {
				return
			}
		}
	}) {
		f.Add(steps.Builtin()[name])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rule, findings := ParseRule(data)
		if finding.HasErrors(findings) {
			return
		}
		rule.Type = "X"
		plan := `{"planir_version":"1.0","goal":"g","steps":[{"id":"x","type":"X"},{"id":"y","type":"X"}]}`
		ParseBy([]byte(plan), manifests.Lookup, Rules{"X": rule})
	})
}

// TestLowerBy holds that a rule of the user's own counts which differs from ours in a default alone.
func TestLowerBy(t *testing.T) {
	rules := BuiltinRules()
	rule := rules["DRAFT_AND_SEND_EMAIL"]
	rule.Constraints = slices.Clone(rule.Constraints) // shared with the built-in one
	rule.Constraints[0].Default = json.RawMessage(`"grave"`)
	rules[rule.Type] = rule
	plan := []byte(planned(`{"id":"S1","type":"DRAFT_AND_SEND_EMAIL","inputs":{"contact":"$in.contact","intent":"$in.intent"}}`))
	text, findings := Lower(plan, Sources{Tools: manifests.Lookup, Rules: rules})
	if !bytes.Contains(text, []byte(`"grave"`)) {
		t.Errorf("lowered to %s, %+v; want the rule's own default", text, findings)
	}
	if text, findings := Lower(plan, Sources{Tools: manifests.Lookup, Rules: BuiltinRules()}); !bytes.Equal(text, plan) {
		t.Errorf("lowered to %s, %+v; want the plan as it is", text, findings)
	}
}
