package lattice_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFuzzTargetsHaveCorpora checks that each fuzz target keeps inputs that fuzzing found, small ones, which every go test runs; and that
// each kept input belongs to a target. "make corpus" finds more.
func TestFuzzTargetsHaveCorpora(t *testing.T) {
	const most, largest = 16, 4096 // inputs, and bytes of one
	function := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	targets := map[string]bool{}
	var kept []string
	for _, folder := range []string{"manifests", "orchestrator", "scripts", "skills", "spritekit"} {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && filepath.Base(filepath.Dir(path)) == "fuzz":
				kept = append(kept, path)
			case strings.HasSuffix(path, "_test.go"):
				source, err := os.ReadFile(path)
				for _, found := range function.FindAllSubmatch(source, -1) {
					targets[filepath.Join(filepath.Dir(path), "testdata", "fuzz", string(found[1]))] = true
				}
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, corpus := range kept {
		inputs, err := os.ReadDir(corpus)
		if err != nil {
			t.Fatal(err)
		}
		if !targets[corpus] {
			t.Errorf("%s holds inputs of no fuzz target", corpus)
		}
		if delete(targets, corpus); len(inputs) == 0 || len(inputs) > most {
			t.Errorf("%s holds %d inputs, want 1 to %d", corpus, len(inputs), most)
		}
		for _, input := range inputs {
			if info, err := input.Info(); err != nil || info.Size() > largest {
				t.Errorf("%s/%s is larger than %d bytes, or gone: %v", corpus, input.Name(), largest, err)
			}
		}
	}
	for corpus := range targets {
		t.Errorf("there is no %s: run make corpus", corpus)
	}
}
