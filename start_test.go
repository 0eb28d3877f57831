package lattice_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestNothingIsCompiledAtStart checks that patterns and templates are compiled when they are first used, in a sync.OnceValue. Each
// command and each skill call is a process, which would otherwise compile all of them.
func TestNothingIsCompiledAtStart(t *testing.T) {
	compilers := []string{"regexp.MustCompile", "regexp.MustCompilePOSIX", "template.Must"}
	files, set := sources(t)
	for _, f := range files {
		if strings.HasPrefix(f.path, "scripts/") {
			continue
		}
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit:
					return false // it runs later
				case *ast.CallExpr:
					if of, ok := n.Fun.(*ast.SelectorExpr); ok {
						if pkg, ok := of.X.(*ast.Ident); ok && slices.Contains(compilers, pkg.Name+"."+of.Sel.Name) {
							t.Errorf("%s: %s.%s runs at each start: wrap it in sync.OnceValue", set.Position(n.Pos()), pkg.Name, of.Sel.Name)
						}
					}
				}
				return true
			})
		}
	}
}
