// Command corpus fuzzes, and keeps of the inputs that fuzzing found a few small ones in testdata/fuzz, where every go test runs
// them: those that reach statements which neither the seeds in the code nor the other kept inputs reach.
//
//	corpus [-time 10s] [-most 6] [-bytes 1024] [-match REGEXP]
//
// Inputs that were kept before stay. An input that fails is kept by the go command itself.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	k := keeper{}
	flag.DurationVar(&k.time, "time", 10*time.Second, "how long each target is fuzzed; 0 takes what earlier fuzzing found")
	flag.IntVar(&k.most, "most", 6, "inputs that a target may have")
	flag.Int64Var(&k.bytes, "bytes", 1024, "largest input")
	match := flag.String("match", "", "only targets `PACKAGE NAME` that match")
	flag.Parse()
	if err := k.run(*match); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

type keeper struct {
	time  time.Duration
	most  int
	bytes int64

	cache string // the go command's folder with the inputs that fuzzing found
	work  string
}

// target is a fuzz target.
type target struct{ folder, name string }

func (k *keeper) run(match string) (err error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	build, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	k.cache = filepath.Join(strings.TrimSpace(string(build)), "fuzz")
	if k.work, err = os.MkdirTemp("", "corpus-"); err != nil {
		return err
	}
	defer os.RemoveAll(k.work)
	all, err := findTargets(".")
	for _, t := range all {
		if wanted.MatchString(t.folder + " " + t.name) {
			err = errors.Join(err, k.keepInputs(t))
		}
	}
	return err
}

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// findTargets lists the fuzz targets of the module below root.
func findTargets(root string) (all []target, err error) {
	return all, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declaration.FindAllSubmatch(source, -1) {
			all = append(all, target{filepath.Dir(path), string(found[1])})
		}
		return err
	})
}

// keepInputs fuzzes a target, and keeps inputs of it.
func (k *keeper) keepInputs(t target) error {
	if k.time > 0 {
		cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", k.time.String(), "-fuzzminimizetime", "10x", "./"+t.folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", t.folder, t.name, err, out)
		}
	}
	path, err := exec.Command("go", "list", "./"+t.folder).Output()
	if err != nil {
		return err
	}
	found, err := k.listCandidates(filepath.Join(k.cache, strings.TrimSpace(string(path)), t.name))
	if err != nil {
		return err
	}
	binary := filepath.Join(k.work, "test")
	if out, err := exec.Command("go", "test", "-c", "-cover", "-o", binary, "./"+t.folder).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", t.folder, err, out)
	}
	kept, err := k.chooseInputs(t, binary, found)
	fmt.Printf("%s %s: %d found, %d kept\n", t.folder, t.name, len(found), kept)
	return err
}

// listCandidates lists the inputs in a folder that are small enough, the smallest first.
func (k *keeper) listCandidates(folder string) (paths []string, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	size := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if path := filepath.Join(folder, e.Name()); info.Size() <= k.bytes {
			size[path] = info.Size()
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(cmp.Compare(size[a], size[b]), strings.Compare(a, b)) })
	return paths, err
}

// chooseInputs copies into the corpus of a target the inputs that reach the most that nothing reached before, one after the other, and at
// least one. It returns how many the corpus has.
func (k *keeper) chooseInputs(t target, binary string, found []string) (int, error) {
	corpus := filepath.Join(t.folder, "testdata", "fuzz", t.name)
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		return 0, err
	}
	before, err := os.ReadDir(corpus)
	if err != nil {
		return 0, err
	}
	reached, err := k.findReached(t, binary, "^"+t.name+"$")
	if err != nil {
		return 0, err
	}
	news := map[string]map[string]bool{}
	for _, path := range found {
		name := filepath.Base(path)
		kept := filepath.Join(corpus, name)
		if _, err := os.Lstat(kept); err == nil {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(kept, data, 0o644)
		}
		if err == nil {
			news[path], err = k.findReached(t, binary, "^"+t.name+"$/^"+name+"$")
		}
		if err = errors.Join(err, os.Remove(kept)); err != nil {
			return 0, err
		}
	}
	kept := len(before)
	for kept < k.most && len(news) > 0 {
		best, gain := "", 0
		for _, path := range found {
			n := 0
			for block := range news[path] {
				if !reached[block] {
					n++
				}
			}
			if news[path] != nil && (n > gain || best == "" && kept == 0) {
				best, gain = path, n
			}
		}
		if best == "" {
			break
		}
		for block := range news[best] {
			reached[block] = true
		}
		delete(news, best)
		data, err := os.ReadFile(best)
		if err == nil {
			err = os.WriteFile(filepath.Join(corpus, filepath.Base(best)), data, 0o644)
		}
		if err != nil {
			return kept, err
		}
		kept++
	}
	return kept, nil
}

// findReached runs inputs and returns the blocks of statements of the package that they reach.
func (k *keeper) findReached(t target, binary, inputs string) (map[string]bool, error) {
	profile := filepath.Join(k.work, "profile")
	cmd := exec.Command(binary, "-test.run", inputs, "-test.coverprofile", profile)
	cmd.Dir = t.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", t.folder, inputs, err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blocks := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if block, count, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasSuffix(count, " 0") {
			blocks[block] = true
		}
	}
	return blocks, lines.Err()
}
