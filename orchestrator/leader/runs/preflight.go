package runs

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// testFiles are patterns of the names of files by which test.run recognises a project.
var testFiles = []string{
	"test.json", "go.mod", "go.work", "Cargo.toml", "package.json", "pom.xml", "build.gradle*", "settings.gradle*", "CTestTestfile.cmake", "CMakeLists.txt",
	"GNUmakefile", "[Mm]akefile", "[Rr]akefile*", ".rspec", "*_spec.rb", "phpunit*", "*pytest.ini", "conftest.py", "pyproject.toml", "tox.ini", "setup.cfg",
	"*test*.py", "*.t", "*.bats", "*.sln", "*.slnx", "*.*proj", "*.test.*", "*-test.*", "*_test.*", "test.*", "test-*.*", "vitest.*", "jest.*", ".mocharc*",
}

// warnOfTests says that the run's first tests will fail because nothing in the repository tells how it is tested. It looks
// only at repositories on this machine, and only for calls that say nothing about it themselves.
func (rn *Starter) warnOfTests(ctx context.Context, p *ir.Program, input json.RawMessage, o api.Options) []string {
	if o.Repo == "" || o.IncludeUncommitted || o.Sprite != "" && !o.OwnSprite {
		return nil
	}
	in, err := expr.Decode(input)
	if err != nil {
		return nil
	}
	asks := ""
	p.Walk(func(n *ir.Node, _ int) {
		if asks == "" && n.Tool == "test.run" && findsOut(n, in) {
			asks = n.ID
		}
	})
	if asks == "" {
		return nil
	}
	names, err := rn.Git.Names(ctx, o.Repo, o.Ref)
	if err != nil || len(names) == 0 || slices.ContainsFunc(names, isTestFile) {
		return nil // what cannot be read here is refused, or found out in the sprite
	}
	return []string{asks + " will not find out how the repository is tested: nothing in it tells; name the command, such as --input test_command='make test' for the built-in flows, or add .spritekit/test.json"}
}

// findsOut reports whether the call of a node leaves it to test.run to find out how the project is tested.
func findsOut(n *ir.Node, input any) bool {
	members, _, err := ir.ArgMembers(n.Args)
	if err != nil || members == nil && len(n.Args) > 0 {
		return false
	}
	for _, name := range []string{"command", "framework"} {
		member, given := members[name]
		if !given {
			continue
		}
		text, err := json.Marshal(member)
		if err != nil {
			return false
		}
		if v, f := expr.Eval(text, expr.Scope{In: input}); f != nil || v != nil {
			return false // given, or known only later
		}
	}
	return true
}

func isTestFile(name string) bool {
	return slices.ContainsFunc(testFiles, func(pattern string) bool {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	}) || strings.HasPrefix(name, "test/") && path.Ext(name) != ""
}
