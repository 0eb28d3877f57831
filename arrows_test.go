package lattice_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxBackward is the percentage of the arrows between the files of a package that may run backward. A single arrow may
// always: of four arrows, it is a quarter.
const maxBackward = 20

// TestFilesReadInOneDirection: there is an order in which the files of a package can be read, each before the files that it
// uses. An arrow leads from a file to each other file that declares a name that it uses: a function, a type, a method or a
// field. In the best order, the arrows that run backward are those that close circles: to understand the one file takes the
// other, and the other way round. Move a declaration to the file that is about it, or next to its only caller.
func TestFilesReadInOneDirection(t *testing.T) {
	all := arrowsOfPackages(t)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		g := all[dir]
		order := g.readingOrder()
		backward := g.backward(order)
		share := (20*len(backward) + g.arrows() - 1) / g.arrows() * 5 // percent, in steps of 5
		if len(backward) > 1 && share > maxBackward {
			var names []string
			for _, file := range order {
				names = append(names, g.files[file])
			}
			t.Errorf("%s: %d of %d arrows between files run backward; %d %% may:\n\t%s\nthe files in the best order: %s",
				dir, len(backward), g.arrows(), maxBackward, strings.Join(backward, "\n\t"), strings.Join(names, ", "))
		}
	}
}

// fileGraph holds the arrows between the files of a package: for each file, the names that it uses of each other one.
type fileGraph struct {
	files []string
	uses  []map[int]map[string]bool
}

// arrowsOfPackages returns the graph of each package that has an arrow, by its folder. It checks each package alone: a method
// of a value that another package returned is not resolved, which can only hide an arrow.
func arrowsOfPackages(t *testing.T) map[string]*fileGraph {
	linux := build.Default
	linux.GOOS, linux.GOARCH, linux.CgoEnabled = "linux", "amd64", false
	set := token.NewFileSet()
	packages := map[string][]*ast.File{}
	for path := range repositoryFiles(t) {
		dir, name := filepath.Split(path)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(path, "testdata/") {
			continue
		}
		if built, err := linux.MatchFile(dir, name); err != nil || !built {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir = strings.TrimSuffix(dir, "/")
		packages[dir] = append(packages[dir], f)
	}
	all := map[string]*fileGraph{}
	for dir, files := range packages {
		slices.SortFunc(files, func(a, b *ast.File) int { return int(a.FileStart - b.FileStart) })
		if g := arrowsOf(set, dir, files); g.arrows() > 0 {
			all[dir] = g
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d packages with more than one file", len(all))
	}
	return all
}

// noPackages is an importer for which no package exists.
type noPackages struct{}

func (noPackages) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func arrowsOf(set *token.FileSet, dir string, files []*ast.File) *fileGraph {
	g := &fileGraph{}
	index := map[string]int{}
	for i, f := range files {
		path := set.Position(f.FileStart).Filename
		index[path] = i
		g.files = append(g.files, filepath.Base(path))
		g.uses = append(g.uses, map[int]map[string]bool{})
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: noPackages{}, Error: func(error) {}, FakeImportC: true}
	check.Check(dir, set, files, info) // fails because of the imports
	for id, object := range info.Uses {
		if _, imported := object.(*types.PkgName); imported || !object.Pos().IsValid() {
			continue
		}
		from, to := index[set.Position(id.Pos()).Filename], index[set.Position(object.Pos()).Filename]
		if from == to {
			continue
		}
		if g.uses[from][to] == nil {
			g.uses[from][to] = map[string]bool{}
		}
		g.uses[from][to][object.Name()] = true
	}
	return g
}

func (g *fileGraph) arrows() (n int) {
	for _, to := range g.uses {
		n += len(to)
	}
	return n
}

// readingOrder returns an order of the files with few arrows that run backward: the best of several attempts, since finding
// the least number is a hard problem (feedback arc set).
func (g *fileGraph) readingOrder() (best []int) {
	const attempts = 40
	fewest := g.arrows() + 1
	chance := rand.New(rand.NewPCG(1, 1))
	for range attempts {
		order := chance.Perm(len(g.files))
		g.improve(order)
		if n := len(g.backward(order)); n < fewest {
			best, fewest = order, n
		}
	}
	return best
}

// improve moves single files for as long as that turns arrows forward.
func (g *fileGraph) improve(order []int) {
	arrow := func(from, to int) int {
		if g.uses[from][to] != nil {
			return 1
		}
		return 0
	}
	for improved := true; improved; {
		improved = false
		for i, file := range order {
			// Moving the file past others turns the arrows between it and each of them.
			best, at := 0, i
			for step := -1; step <= 1; step += 2 {
				change := 0
				for j := i + step; j >= 0 && j < len(order); j += step {
					change += step * (arrow(file, order[j]) - arrow(order[j], file))
					if change < best {
						best, at = change, j
					}
				}
			}
			if best < 0 {
				copy(order, slices.Insert(slices.Delete(slices.Clone(order), i, i+1), at, file))
				improved = true
			}
		}
	}
}

// backward returns the arrows that run backward if the files are read in this order, with the names that make them.
func (g *fileGraph) backward(order []int) (arrows []string) {
	for at, from := range order {
		for _, to := range order[:at] {
			if names := g.uses[from][to]; names != nil {
				arrows = append(arrows, fmt.Sprintf("%s → %s: %s", g.files[from], g.files[to], strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
			}
		}
	}
	return arrows
}
