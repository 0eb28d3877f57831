package lattice_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// early runs before main, and says why.
const early = "orchestrator/host/sandbox/early"

// maxLines is where a file has more than one subject.
const maxLines = 500

// source is one Go file of this module that is no test.
type source struct {
	path string
	text []byte
	*ast.File
}

// sources parses the Go files of the module, for every system that they are written for.
func sources(t *testing.T) (files []source, set *token.FileSet) {
	t.Helper()
	set = token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(path, d.Name())
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		files = append(files, source{path, text, f})
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("read the module: %v, %d files", err, len(files))
	}
	return files, set
}

// enter skips what the go command skips: hidden folders, testdata, vendored code, and other modules.
func enter(path, name string) error {
	if path == "." {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "vendor" || name == "bin" {
		return filepath.SkipDir
	}
	return nil
}

// TestPackagesIntroduceThemselves: every package opens with a comment that lets a stranger start.
func TestPackagesIntroduceThemselves(t *testing.T) {
	docs := map[string]string{} // package folder → comment
	names := map[string]string{}
	files, _ := sources(t)
	for _, f := range files {
		dir := filepath.Dir(f.path)
		names[dir] = f.Name.Name
		if f.Doc != nil {
			if docs[dir] != "" {
				t.Errorf("%s: a second package comment, in %s", dir, f.path)
			}
			docs[dir] = f.Doc.Text()
		}
	}
	for dir, name := range names {
		opening := "Package " + name + " "
		if name == "main" {
			opening = "Command "
		}
		const aStart = 120 // bytes
		switch doc := docs[dir]; {
		case doc == "":
			t.Errorf("%s has no package comment", dir)
		case !strings.HasPrefix(doc, opening):
			t.Errorf("%s: the package comment must begin with %q, not %.40q", dir, opening, doc)
		case len(doc) < aStart:
			t.Errorf("%s: say what it is, which type to look at first and what it never does, not only %q", dir, doc)
		}
	}
}

// TestCommentsNameWhatTheyDescribe: a comment above a function or a type begins with its name, as go doc shows it. Above
// one that is not exported, it may begin with a capital letter instead: a sentence.
func TestCommentsNameWhatTheyDescribe(t *testing.T) {
	files, set := sources(t)
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				checkComment(t, set, d.Doc, d.Name)
			case *ast.GenDecl:
				if d.Tok == token.TYPE && len(d.Specs) == 1 {
					checkComment(t, set, d.Doc, d.Specs[0].(*ast.TypeSpec).Name)
				}
			}
		}
	}
}

func checkComment(t *testing.T, set *token.FileSet, doc *ast.CommentGroup, name *ast.Ident) {
	t.Helper()
	words := strings.Fields(doc.Text())
	if len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	first := strings.TrimRight(words[0], ",.:'s")
	if first != strings.TrimRight(name.Name, "s") && (name.IsExported() || !ast.IsExported(first)) {
		t.Errorf("%s: the comment above %s begins with %q", set.Position(name.Pos()), name.Name, words[0])
	}
}

func TestFilesStayReadable(t *testing.T) {
	files, _ := sources(t)
	for _, f := range files {
		if n := bytes.Count(f.text, []byte("\n")); n > maxLines && !ast.IsGenerated(f.File) {
			t.Errorf("%s has %d lines: split it by subject", f.path, n)
		}
	}
}

// TestOnlyMainsTouchTheProcess: packages are given what they need. Only mains read environment and flags, leave the
// process or move it.
func TestOnlyMainsTouchTheProcess(t *testing.T) {
	forbidden := map[string]bool{
		"os.Getenv": true, "os.LookupEnv": true, "os.Environ": true, "os.ExpandEnv": true, "os.Setenv": true, "os.Unsetenv": true,
		"os.Clearenv": true, "os.Args": true, "os.Exit": true, "os.Chdir": true, "syscall.Getenv": true, "syscall.Exit": true,
		"log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true,
	}
	files, set := sources(t)
	for _, f := range files {
		if f.Name.Name == "main" || f.Name.Name == "program" || filepath.ToSlash(filepath.Dir(f.path)) == early || f.Name.Name == "skilltest" { // a suite runs in a test's main, and needs its PATH
			continue
		}
		for _, spec := range f.Imports {
			if spec.Path.Value == `"flag"` {
				t.Errorf("%s: only mains read flags", set.Position(spec.Pos()))
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && forbidden[pkg.Name+"."+sel.Sel.Name] {
				t.Errorf("%s: %s.%s belongs to mains; take the value as a parameter", set.Position(sel.Pos()), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// TestNothingRunsBeforeMain: what exists is listed where it is used, not registered on import.
func TestNothingRunsBeforeMain(t *testing.T) {
	files, set := sources(t)
	for _, f := range files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: no func init", set.Position(fn.Pos()))
			}
		}
		for _, spec := range f.Imports {
			if spec.Name != nil && spec.Name.Name == "_" && spec.Path.Value != `"embed"` && !strings.HasSuffix(spec.Path.Value, "/"+early+`"`) {
				t.Errorf("%s: no import for its side effects", set.Position(spec.Pos()))
			}
		}
	}
}
