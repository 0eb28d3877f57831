package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// TestNestedLoops checks loops in each other, as many as a document can nest. The innermost assigns a variable, which is assigned
// after the outermost, too. To check the bodies of each loop again for each loop around it takes hours.
func TestNestedLoops(t *testing.T) {
	const depth = 20
	nodes, entry, edges := `{"id":"a","op":"SET","set":{"$vars.x":1}}`, "a", ""
	for i := range depth {
		body := fmt.Sprintf(`{"entry_node":%q,"nodes":[%s],"edges":[]}`, entry, nodes)
		entry = fmt.Sprintf("loop%d", i)
		nodes = fmt.Sprintf(`{"id":%q,"op":"LOOP","max_iterations":2,"until":{"op":"eq","left":"$vars.x","right":1},"body":%s}`, entry, body)
	}
	nodes += `,{"id":"end","op":"PACK","inputs":{"x":"$vars.x"}}`
	edges = fmt.Sprintf(`{"from":%q,"to":"end"}`, entry)
	p, findings := check.Parse(fmt.Appendf(nil, `{"execir_version":"1.0","entry_node":%q,"nodes":[%s],"edges":[%s]}`, entry, nodes, edges), tools)
	if p == nil || len(findings) > 0 {
		t.Errorf("Parse of loops in each other = %v", findings)
	}
}

// branchesOf returns a PARALLEL with two branches that run the subgraph of a ref.
func branchesOf(id, ref string) string {
	branch := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"body":{"entry_node":"%s-%s","nodes":[{"id":"%s-%s","op":"SUBGRAPH","ref":%q}],"edges":[]}}`, name, id, name, id, name, ref)
	}
	return fmt.Sprintf(`{"id":%q,"op":"PARALLEL","branches":[%s,%s]}`, id, branch("x"), branch("y"))
}

// TestManySubgraphs checks a chain of subgraphs, each of which runs the next one twice. To search a subgraph for each node that
// refers to it takes years.
func TestManySubgraphs(t *testing.T) {
	for _, last := range []string{
		`{"id":"n","op":"TOOL_CALL","tool":"look","args":{"path":"x"}}`,
		`{"id":"n","op":"TOOL_CALL","tool":"put","sprite":"fork"}`,
	} {
		var subs []string
		node, ref := last, ""
		for i := range 60 {
			document := fmt.Sprintf(`{"execir_version":"1.0","entry_node":"n","nodes":[%s],"edges":[]}`, node)
			digest, err := ir.DigestOf([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, fmt.Sprintf(`"s%d":{"digest":%q,"document":%s}`, i, digest, document))
			ref = fmt.Sprintf("s%d@%s", i, digest)
			node = branchesOf("n", ref)
		}
		p, findings := check.Parse([]byte(doc(branchesOf("a", ref), ``, `"subgraphs":{`+strings.Join(subs, ",")+`}`)), tools)
		if p == nil {
			t.Fatalf("Parse of many subgraphs = %v", findings)
		}
		if got, want := p.CopiesInside(p.Node("a")), strings.Contains(last, "fork"); got != want {
			t.Errorf("CopiesInside of subgraphs around %s = %v, want %v", last, got, want)
		}
	}
}

// TestBranchesOfRecursion checks that a subgraph that runs itself is refused where branches run it, too.
func TestBranchesOfRecursion(t *testing.T) {
	ref := "s@sha256:" + strings.Repeat("0", 64)
	sub := `"subgraphs":{"s":{"digest":"","document":{"execir_version":"1.0","entry_node":"n","edges":[],"nodes":[{"id":"n","op":"SUBGRAPH","ref":"` + ref + `"}]}}}`
	p, findings := check.Parse([]byte(doc(branchesOf("a", ref), ``, sub)), tools)
	codes := ""
	for _, f := range findings {
		codes += f.Code + " "
	}
	if p != nil || !strings.Contains(codes, "subgraph_recursive") {
		t.Errorf("Parse = %v, want subgraph_recursive among the findings", findings)
	}
}
