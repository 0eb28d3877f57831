package compile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// withExamples looks up the example skills beside the built-in ones.
func withExamples(t *testing.T) Tools {
	t.Helper()
	examples := map[string]manifests.Skill{}
	for _, name := range []string{"contacts.search", "drive.search", "gmail.send"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "manifests", "examples", name, manifests.ManifestFile))
		if err != nil {
			t.Fatal(err)
		}
		skill, err := manifests.ParseSkill(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		examples[name] = skill
	}
	return func(name string) (manifests.Skill, bool) {
		if s, ok := examples[name]; ok {
			return s, true
		}
		return manifests.Lookup(name)
	}
}

// TestFirstEmailExample holds that the email program as it was first written down is refused, every fault of it named at
// once: it chooses by nothing, lacks a retry policy, and sends to an address that its packet never holds.
func TestFirstEmailExample(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "seed-email.execir.json"))
	if err != nil {
		t.Fatal(err)
	}
	flow, findings := Parse(data, withExamples(t))
	if flow != nil {
		t.Fatal("the program is taken")
	}
	var got strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&got, "%s %s %s: %s\n", f.Severity, f.Code, f.Pointer, f.Message)
	}
	golden := filepath.Join("testdata", "seed-email.findings.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestEmailPlan holds that the plan for the same goal is lowered to a program without any of these faults: the person
// chosen comes along whole, and nothing is sent that nobody has approved.
func TestEmailPlan(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "manifests", "examples", "email-confirm.plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	flow, findings := Parse(data, withExamples(t))
	if flow == nil || len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	var ops []string
	for _, n := range flow.Program.Doc.Nodes {
		ops = append(ops, n.ID+" "+string(n.Op))
	}
	want := []string{
		"S1.extract LLM_EXTRACT", "S2.search TOOL_CALL", "S2.choose LLM_CHOOSE", "S3.search TOOL_CALL", "S3.choose LLM_CHOOSE",
		"S4.pack PACK", "S4.draft LLM_WRITE", "S4.drafted SET", "S4.approve HUMAN", "S4.send TOOL_CALL",
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Error(diff)
	}
	if got := flow.Program.Node("S4.send"); got.Skip == nil || flow.Program.Node("S2.choose").Outputs["item"] != "$vars.contact" {
		t.Error("the email goes out without being asked for, or to somebody whose address is not known")
	}
	if _, ok := flow.Program.Doc.Templates["draft_email_v2"]; !ok || finding.HasErrors(findings) {
		t.Error("the templates are not pinned")
	}
}
