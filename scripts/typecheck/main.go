// Command typecheck says whether packages compile for other systems, without compiling them: it reads the sources that the go
// command selects for a system, and those of all they import, and checks the types. A build of an empty cache takes some
// minutes for each system; this takes seconds, because nothing is generated and the bodies of other modules are not read.
//
//	typecheck SYSTEM/PROCESSOR[,…] PACKAGE…
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck SYSTEM/PROCESSOR[,…] PACKAGE…")
		os.Exit(2)
	}
	failed := false
	for system := range strings.SplitSeq(os.Args[1], ",") {
		fmt.Println(system)
		if err := check(system, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string
	Module     *struct{ Main bool }
	Error      *struct{ Err string }
}

// check checks the packages that match patterns, and all that they import, for one system.
func check(system string, patterns []string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return fmt.Errorf("%s is not SYSTEM/PROCESSOR", system)
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error"}, patterns...)...)
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	err = checkListed(json.NewDecoder(out), types.SizesFor("gc", goarch))
	return errors.Join(err, list.Wait())
}

// checkListed checks packages in the order of go list -deps: each follows those that it imports.
func checkListed(packages *json.Decoder, sizes types.Sizes) error {
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	var problems []error
	for {
		var p listed
		switch err := packages.Decode(&p); {
		case err == io.EOF:
			return errors.Join(problems...)
		case err != nil:
			return err
		case p.Error != nil:
			problems = append(problems, errors.New(p.Error.Err))
			continue
		case p.ImportPath == "unsafe":
			continue
		}
		ours := p.Module != nil && p.Module.Main
		fset := token.NewFileSet()
		files, err := parse(fset, p)
		if err != nil {
			problems = append(problems, err)
		}
		conf := types.Config{Importer: importer{done, p.ImportMap}, Sizes: sizes, IgnoreFuncBodies: !ours, Error: func(err error) {
			if ours {
				problems = append(problems, err)
			}
		}}
		done[p.ImportPath], _ = conf.Check(p.ImportPath, fset, files, nil) // Error has the errors
	}
}

// parse reads the files of a package side by side.
func parse(fset *token.FileSet, p listed) ([]*ast.File, error) {
	files, errs := make([]*ast.File, len(p.GoFiles)), make([]error, len(p.GoFiles))
	var wg sync.WaitGroup
	for i, name := range p.GoFiles {
		wg.Go(func() {
			files[i], errs[i] = parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		})
	}
	wg.Wait()
	return files, errors.Join(errs...)
}

// importer finds packages that were checked before; names maps the paths in sources to those of packages.
type importer struct {
	done  map[string]*types.Package
	names map[string]string
}

// Import implements [types.Importer].
func (i importer) Import(path string) (*types.Package, error) {
	if name, ok := i.names[path]; ok {
		path = name
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed", path)
}
