package lattice_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exitOf lists the constructors of package fault and their exit codes.
var exitOf = map[string]string{
	"Failed": "1", "BadInput": "2", "NotFound": "3", "Denied": "4", "Network": "5", "Busy": "6", "Unsafe": "7",
	"Unsupported": "8", "Limit": "9", "Internal": "70", "Timeout": "124", "Cancelled": "130", "New": "",
}

// codeShape matches the codes of errors.
var codeShape = regexp.MustCompile(`^[a-z][a-z0-9_]+$`)

// codeRow matches a row of docs/errors.md: code, exit codes, meaning.
var codeRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([0-9, ]+) \\| \\S")

// TestErrorsDocument checks that docs/errors.md lists the codes that the code gives errors, all of them and no others, and
// that it names the exit codes that the constructors of package fault give them.
func TestErrorsDocument(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, row := range codeRow.FindAllStringSubmatch(string(page), -1) {
		if documented[row[1]] != nil {
			t.Errorf("docs/errors.md lists %s twice", row[1])
		}
		documented[row[1]] = strings.Split(row[2], ", ")
	}
	used := errorCodes(t)
	if len(used) < 200 {
		t.Fatalf("found %d codes in the code, want at least 200", len(used))
	}
	for code, use := range used {
		exits, ok := documented[code]
		if !ok {
			t.Errorf("%s gives errors the code %s, which docs/errors.md does not list", use.at, code)
		}
		for exit := range use.exits {
			if ok && !slices.Contains(exits, exit) {
				t.Errorf("%s ends with %s at %s, which docs/errors.md does not say", code, exit, use.at)
			}
		}
	}
	for code := range documented {
		if used[code] == nil {
			t.Errorf("docs/errors.md lists %s, which no error has", code)
		}
	}
}

// untestedCodes matches the codes that no test provokes: a broken audit log is refused before a command could read it, and
// the check itself is tested in packages audit and store.
var untestedCodes = regexp.MustCompile(`^audit_broken$`)

// TestErrorCodesOccurInTests checks that each code of docs/errors.md occurs in a test.
func TestErrorCodesOccurInTests(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	occurs := map[string]bool{}
	word := regexp.MustCompile(`[a-z][a-z0-9_]+`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") && !strings.HasPrefix(path, "spritekit/contract/"), path == "errorcodes_test.go", !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		for _, code := range word.FindAll(text, -1) {
			occurs[string(code)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range codeRow.FindAllStringSubmatch(string(page), -1) {
		if code := row[1]; !occurs[code] && !untestedCodes.MatchString(code) {
			t.Errorf("no test names the error code %s; cause the error in a script, see orchestrator/testdata/script/error-codes.txtar", code)
		}
	}
}

// A codeUse says where a code is given to an error, and the exit codes that are known from the constructor.
type codeUse struct {
	at    string
	exits map[string]bool
}

// A helper is a function that makes an error with the code that one of its parameters holds, the first being 1.
type helper struct {
	param int
	exit  string // where it is always the same
}

// errorCodes returns the codes that the Go code gives to errors: literals and constants that are passed to a constructor of
// package fault, or stand for the Code of a protocol.Fault, in place or through functions with a parameter for the code.
func errorCodes(t *testing.T) map[string]*codeUse {
	files, set := sources(t)
	codes := map[string]*codeUse{}
	add := func(pos token.Pos, code, exit string) {
		if !codeShape.MatchString(code) {
			return
		}
		use := codes[code]
		if use == nil {
			use = &codeUse{at: set.Position(pos).String(), exits: map[string]bool{}}
			codes[code] = use
		}
		if exit != "" {
			use.exits[exit] = true
		}
	}
	constants := map[string]string{} // package.Name → value
	helpers := map[string]helper{}   // by folder.function and package.function
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, n := range v.Names {
					if i < len(v.Values) {
						if text, ok := literal(v.Values[i]); ok {
							constants[filepath.Dir(f.path)+"."+n.Name], constants[filepath.Base(filepath.Dir(f.path))+"."+n.Name] = text, text
						}
					}
				}
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, f := range files {
			dir := filepath.Dir(f.path)
			params := map[string]int{} // of the function that encloses, by name
			value := func(e ast.Expr) (string, bool) {
				if text, ok := literal(e); ok {
					return text, true
				}
				switch e := e.(type) {
				case *ast.Ident:
					text, ok := constants[dir+"."+e.Name]
					return text, ok
				case *ast.SelectorExpr:
					if p, isName := e.X.(*ast.Ident); isName {
						text, ok := constants[p.Name+"."+e.Sel.Name]
						return text, ok
					}
				}
				return "", false
			}
			for _, d := range f.Decls {
				name := ""
				clear(params)
				if fn, ok := d.(*ast.FuncDecl); ok {
					name = dir + "." + fn.Name.Name
					n := 0
					for _, field := range fn.Type.Params.List {
						for _, p := range field.Names {
							params[p.Name] = n
							n++
						}
					}
				}
				given := func(e ast.Expr, exit string) {
					if code, ok := value(e); ok {
						add(e.Pos(), code, exit)
						return
					}
					if p, ok := e.(*ast.Ident); ok && name != "" {
						if i, isParam := params[p.Name]; isParam && helpers[name] == (helper{}) {
							h := helper{i + 1, exit}
							helpers[name], helpers[filepath.Base(name)], grown = h, h, true
						}
					}
				}
				ast.Inspect(d, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.AssignStmt: // a function literal with a parameter for the code
						for i, r := range n.Rhs {
							if sel, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.SelectorExpr); ok && sel.Sel.Name == "Code" && strings.HasPrefix(dir, "skills/") { // elsewhere findings have codes
								given(r, "")
							}
							fn, ok := r.(*ast.FuncLit)
							if !ok || i >= len(n.Lhs) {
								continue
							}
							if id, ok := n.Lhs[i].(*ast.Ident); ok {
								at := 0
								for _, field := range fn.Type.Params.List {
									for _, p := range field.Names {
										if p.Name == "code" {
											if key := dir + "." + id.Name; helpers[key] == (helper{}) && makesFault(fn) {
												helpers[key], grown = helper{at + 1, ""}, true
											}
										}
										at++
									}
								}
							}
						}
					case *ast.CompositeLit:
						if s := nameOf(n.Type); s == "Failure" && len(n.Elts) == 4 { // of the store: text, exit code, code, remedy
							exit, _ := n.Elts[1].(*ast.BasicLit)
							if exit != nil {
								given(n.Elts[2], exit.Value)
							}
						} else if s == "Fault" {
							for _, e := range n.Elts {
								if kv, ok := e.(*ast.KeyValueExpr); ok && nameOf(kv.Key) == "Code" {
									given(kv.Value, "")
								}
							}
						}
					case *ast.CallExpr:
						called := nameOf(n.Fun)
						if sel, ok := n.Fun.(*ast.SelectorExpr); ok && nameOf(sel.X) == "fault" {
							if exit, ok := exitOf[called]; ok {
								at := 0
								if called == "New" {
									at, exit = 1, exitCode(n.Args[0])
								}
								given(n.Args[at], exit)
							}
							return true
						}
						h := helpers[dir+"."+called]
						if sel, ok := n.Fun.(*ast.SelectorExpr); ok && h == (helper{}) {
							h = helpers[nameOf(sel.X)+"."+called]
						}
						if h.param > 0 && h.param <= len(n.Args) {
							given(n.Args[h.param-1], h.exit)
						}
					}
					return true
				})
			}
		}
	}
	return codes
}

// makesFault reports whether a function passes its parameter code to an error.
func makesFault(fn *ast.FuncLit) (makes bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && nameOf(sel.X) == "fault" {
				makes = makes || slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return nameOf(e) == "code" })
			}
		}
		return true
	})
	return makes
}

// nameOf returns the last name of an identifier or a selector, "" for other expressions.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// exitCode returns the exit code that a constant protocol.ExitX stands for, "" for other expressions.
func exitCode(e ast.Expr) string {
	name, ok := strings.CutPrefix(nameOf(e), "Exit")
	if !ok {
		return ""
	}
	return exitOf[name]
}
