package compile_test

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
)

// A flow that clones a repository, runs its tests and notes the result.
func ExampleBuild() {
	b := compile.Build("tested")
	clone := b.Step("clone", "git.clone", compile.Args{"url": compile.In("url")})
	test := b.Step("test", "test.run", compile.Args{"cwd": clone.Out("dest"), "allow_red": true})
	green := b.Step("green", "fs.write", compile.Args{"path": "result", "content": "passed"})
	red := b.Step("red", "fs.write", compile.Args{"path": "result", "content": "failed"})
	b.Edge(test, green, `$vars.test.status == "passed"`)
	b.Edge(test, red, "")
	b.Output(compile.Args{"status": test.Out("status")})
	workflow, err := b.Workflow()
	if err != nil {
		fmt.Println(err)
		return
	}

	document, err := json.Marshal(workflow)
	if err != nil {
		fmt.Println(err)
		return
	}
	flow, findings := compile.Parse(document, manifests.Lookup)
	if flow == nil {
		fmt.Println(findings)
		return
	}
	for _, e := range flow.Program.Doc.Edges {
		fmt.Println(e.From, "->", e.To)
	}
	// Output:
	// test -> green
	// test -> red
	// clone -> test
}
