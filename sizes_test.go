package lattice_test

import (
	"bytes"
	"go/ast"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// Where a type or a package has more than one subject.
const (
	maxMethods      = 40
	maxPackageLines = 3000
)

func TestTypesHaveFewMethods(t *testing.T) {
	files, _ := sources(t)
	methods := map[string]map[string]bool{} // by name: files for different systems have the same ones
	for _, f := range files {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			of := path.Join(filepath.ToSlash(filepath.Dir(f.path)), receiverName(fn.Recv.List[0].Type))
			if methods[of] == nil {
				methods[of] = map[string]bool{}
			}
			methods[of][fn.Name.Name] = true
		}
	}
	for _, of := range slices.Sorted(maps.Keys(methods)) {
		if n := len(methods[of]); n > maxMethods {
			t.Errorf("%s has %d methods, more than %d: give those that share state a type of their own", of, n, maxMethods)
		}
	}
}

// receiverName returns the type of a receiver without its pointer and its parameters.
func receiverName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiverName(of.X)
	case *ast.IndexExpr:
		return receiverName(of.X)
	case *ast.IndexListExpr:
		return receiverName(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

func TestPackagesAreSmall(t *testing.T) {
	files, _ := sources(t)
	lines := map[string]int{}
	for _, f := range files {
		if !ast.IsGenerated(f.File) {
			lines[filepath.ToSlash(filepath.Dir(f.path))] += bytes.Count(f.text, []byte("\n"))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		if lines[dir] > maxPackageLines {
			t.Errorf("%s has %d lines, more than %d: take a part with a subject of its own out of it", dir, lines[dir], maxPackageLines)
		}
	}
}
