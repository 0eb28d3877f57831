package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// exerciseBatch is the number of exercises that are tested in one sprite.
const exerciseBatch = 19

// exercises compares the tests of small Go modules in fresh sprites with the same tests outside. Both begin with the same compiled
// standard library, and each module is compiled, vetted, linked and run.
func exercises(ctx context.Context, dir string, batches int) ([]figure, error) {
	const name = "tests of %d small Go modules in sprites"
	if runtime.GOOS != "linux" {
		return []figure{{Name: fmt.Sprintf(name, batches*exerciseBatch), Skipped: "sprites need Linux"}}, nil
	}
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	env := []string{"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "XDG_STATE_HOME=" + filepath.Join(home, "state")}
	lattice := func(args ...string) error { return runIn(ctx, dir, env, filepath.Join(dir, "lattice"), args...) }
	if err := lattice("doctor", "--warm"); err != nil {
		return nil, err
	}
	shared, err := filepath.Glob(filepath.Join(home, "cache/lattice/go-build/*/README"))
	if err != nil || len(shared) != 1 {
		return nil, fmt.Errorf("lattice doctor --warm left the caches %v (%v), want one", shared, err)
	}
	gocache := filepath.Join(dir, "gocache")
	if err := runIn(ctx, dir, nil, "cp", "-r", filepath.Dir(shared[0]), gocache); err != nil {
		return nil, err
	}
	const test = `cd "$1" && for m in m*; do (cd $m && go test .) || exit 1; done`
	var inside, outside, ratios []float64
	for i := range batches {
		folder, sprite := fmt.Sprintf("exercises%d", i), fmt.Sprintf("exercises-%d", i)
		if err := writeExercises(filepath.Join(dir, folder), i*exerciseBatch); err != nil {
			return nil, err
		}
		if err := lattice("sprite", "create", sprite); err != nil {
			return nil, err
		}
		if err := lattice("sprite", "cp", "-r", folder, sprite+":/workspace/"+folder); err != nil {
			return nil, err
		}
		runs := []func() error{
			func() error {
				return lattice("sprite", "exec", sprite, "--", "sh", "-c", test, "sh", "/workspace/"+folder)
			},
			func() error {
				return runIn(ctx, dir, []string{"GOCACHE=" + gocache, "GOFLAGS="}, "sh", "-c", test, "sh", filepath.Join(dir, folder))
			},
		}
		var took [2]float64
		for j := range runs { // each is the first in every other round
			k := (i + j) % 2
			start := time.Now()
			if err := runs[k](); err != nil {
				return nil, err
			}
			took[k] = time.Since(start).Seconds()
		}
		inside, outside, ratios = append(inside, took[0]), append(outside, took[1]), append(ratios, took[0]/took[1])
		if err := lattice("sprite", "rm", sprite); err != nil {
			return nil, err
		}
	}
	ratio := median(ratios)
	return []figure{figure{Name: fmt.Sprintf(name, batches*exerciseBatch), Value: sum(inside), Unit: "s", Ratio: ratio,
		Beside: fmt.Sprintf("the same outside: %.3g s", sum(outside))}.atMost(ratio, 1.5)}, nil
}

// writeExercises writes a batch of modules. Each has another name in its program, so that no cache knows its object file.
func writeExercises(dir string, first int) error {
	for n := first; n < first+exerciseBatch; n++ {
		files := map[string]string{
			"go.mod": "module exercise\n\ngo 1.21\n",
			"words.go": `package exercise

import (
	"sort"
	"strings"
	"unicode"
)

// WordsN returns the different words of a text in order.
func WordsN(text string) (words []string) {
	counts := map[string]int{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if counts[w]++; counts[w] == 1 {
			words = append(words, w)
		}
	}
	sort.Strings(words)
	return words
}
`,
			"words_test.go": `package exercise

import (
	"reflect"
	"testing"
)

func TestWordsN(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "b a b": {"a", "b"}, "One, two; one!": {"one", "two"}} {
		t.Run(text, func(t *testing.T) {
			if got := WordsN(text); !reflect.DeepEqual(got, want) {
				t.Errorf("WordsN(%q) = %q, want %q", text, got, want)
			}
		})
	}
}
`}
		module := filepath.Join(dir, fmt.Sprintf("m%03d", n))
		if err := os.MkdirAll(module, 0o755); err != nil {
			return err
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(module, name), []byte(strings.ReplaceAll(text, "WordsN", fmt.Sprintf("Words%d", n))), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// runIn runs a command in dir, whose output matters only if it fails.
func runIn(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(name), args, err, out)
	}
	return nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
