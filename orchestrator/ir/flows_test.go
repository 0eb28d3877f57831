package ir_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// The flows that come with the product are valid, need nothing beyond the default grants, and raise no warning.
func TestReadyMadeFlows(t *testing.T) {
	want := []string{"auto-triage", "best-of-n", "code-review-heavy", "code-review", "doc-check", "fix-and-propose", "health-check", "human-approve", "import-handoff", "improvement", "issue-triage", "loop", "merge-check", "plan-review-heavy", "plan-review", "plan-tasks", "pull-request", "research", "sprite-exec", "stale-note", "test-each", "test-only"}
	if diff := cmp.Diff(want, manifests.Flows()); diff != "" {
		t.Errorf("Flows() (-want +got):\n%s", diff)
	}
	for _, name := range manifests.Flows() {
		data, ok := manifests.Flow(name)
		if !ok {
			t.Fatalf("Flow(%q) is listed and not there", name)
		}
		p, findings := check.Parse(data, manifests.Lookup)
		for _, f := range findings {
			t.Errorf("%s: %+v", name, f)
		}
		if p == nil {
			continue
		}
		if p.Doc.ID != name {
			t.Errorf("%s calls itself %q", name, p.Doc.ID)
		}
		for _, f := range p.Preflight(ir.DefaultGrants()) {
			t.Errorf("%s: default grants: %+v", name, f)
		}
	}
	if _, ok := manifests.Flow("../manifests"); ok {
		t.Error("Flow reads outside of its folder")
	}
}

// The model that chooses the pages of a research reads only words of people: no page, and no answer that quotes one, can add a source.
func TestResearchChoosesPagesWithoutPages(t *testing.T) {
	data, _ := manifests.Flow("research")
	p, findings := check.Parse(data, manifests.Lookup)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var read []string
	for _, n := range p.Doc.Nodes {
		if n.ID == "find" {
			for _, value := range n.Inputs {
				read = append(read, regexp.MustCompile(`\$[a-z]+\.[a-z]+`).FindAllString(string(value), -1)...)
			}
		}
	}
	slices.Sort(read)
	if diff := cmp.Diff([]string{"$in.context", "$in.known", "$in.question"}, read); diff != "" {
		t.Errorf("the node find reads (-want +got):\n%s", diff)
	}
}
