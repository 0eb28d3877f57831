package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
)

const modulePath = "github.com/spritekit/lattice"

// comments holds the comments of types ("package/path.Type") and their fields ("package/path.Type.Field").
type comments map[string]string

// readComments reads the comments of the packages that types come from, below the root of the module.
func readComments(root string, types ...reflect.Type) (comments, error) {
	c := comments{}
	for _, t := range types {
		dir, ours := strings.CutPrefix(t.PkgPath(), modulePath+"/")
		if _, done := c[t.PkgPath()]; !ours || done {
			continue
		}
		c[t.PkgPath()] = ""
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("read comments: %w", err)
			}
			c.readFile(t.PkgPath(), parsed)
		}
	}
	return c, nil
}

func (c comments) readFile(pkg string, f *ast.File) {
	for _, decl := range f.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			t := spec.(*ast.TypeSpec)
			name := pkg + "." + t.Name.Name
			c[name] = firstSentence(t.Doc, general.Doc)
			object, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range object.Fields.List {
				for _, id := range field.Names {
					c[name+"."+id.Name] = firstSentence(field.Comment, field.Doc)
				}
			}
		}
	}
}

// firstSentence is the first comment that says something, on one line, beginning with a capital letter.
func firstSentence(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			return strings.ToUpper(text[:1]) + text[1:]
		}
	}
	return ""
}

// moduleRoot is the folder of go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if path.Dir(dir) == dir {
			return "", fmt.Errorf("there is no go.mod above the working directory")
		}
		dir = path.Dir(dir)
	}
}
