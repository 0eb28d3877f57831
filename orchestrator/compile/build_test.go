package compile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

func TestBuilder(t *testing.T) {
	b := Build("tested")
	b.Describe("Test, and write down how it went.")
	clone := b.Step("clone", "git.clone", Args{"url": In("url")})
	test := b.Step("test", "test.run", Args{"cwd": clone.Out("dest"), "allow_red": true}).
		Retry(ir.Retry{On: []string{expr.FailTimeout}, MaxAttempts: 2})
	green := b.Step("green", "fs.write", Args{"path": "green", "content": "$5"})
	red := b.Step("red", "fs.write", Args{"path": "red", "content": map[string]any{"json": test.Out("counts")}}).
		Catch(ir.Catch{On: []string{"ALL"}, To: "noted"})
	b.Step("noted", "fs.write", Args{"path": "noted", "content": "x"})
	b.Edge(test, green, `$vars.test.status == "passed"`)
	b.Edge(test, red, "")
	b.Output(Args{"status": test.Out("status")})
	w, err := b.Workflow()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	flow, findings := Parse(text, manifests.Lookup)
	if flow == nil {
		t.Fatalf("%s: %+v", text, findings)
	}
	var edges []string
	for _, e := range flow.Program.Doc.Edges {
		edges = append(edges, e.From+" → "+e.To)
	}
	if diff := cmp.Diff([]string{"test → green", "test → red", "clone → test"}, edges); diff != "" {
		t.Error(diff)
	}
	if got := string(flow.Program.Node("green").Args); got != `{"content":{"lit":"$5"},"path":"green"}` {
		t.Errorf("a text that looks like a reference became %s", got)
	}
}

func TestBuilderFaults(t *testing.T) {
	b := Build("x")
	one := b.Step("one", "fs.read", Args{"path": func() {}})
	b.Edge(one, one, "$vars.one ===")
	if _, err := b.Workflow(); err == nil || !strings.Contains(err.Error(), "the inputs of one") || !strings.Contains(err.Error(), "edge from one to one") {
		t.Errorf("error %v", err)
	}
}
