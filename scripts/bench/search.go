package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
)

// The tree that is searched: as many files as a large repository has, in as many folders.
const (
	treeFolders    = 2000
	treeFolderSize = 20
	treeFiles      = treeFolders * treeFolderSize
)

// searching compares fs.search and fs.glob with the tools that people use, on a tree that all have in their caches.
func searching(ctx context.Context, dir string, rounds int) ([]figure, error) {
	tree := filepath.Join(dir, "tree")
	if err := plant(tree); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("git"); err == nil { // git grep reads the files in its index
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
			if err := runGit(ctx, tree, args...); err != nil {
				return nil, err
			}
		}
	}
	var figures []figure
	for _, q := range []struct {
		name, skill, input, seen string
		rg, git                  []string
	}{
		{"literal, few hits", "fs.search", `{"pattern":"needle_in_haystack"}`, "needle_in_haystack", []string{"needle_in_haystack"}, []string{"grep", "needle_in_haystack"}},
		{"literal, a hit in each file", "fs.search", `{"pattern":"func handler","mode":"count","max_results":20000}`, "mod", []string{"-c", "func handler"}, []string{"grep", "-c", "func handler"}},
		{"literal, any case", "fs.search", `{"pattern":"NEEDLE_in_haystack","ignore_case":true}`, "needle_in_haystack", []string{"-i", "NEEDLE_in_haystack"}, []string{"grep", "-i", "NEEDLE_in_haystack"}},
		{"expression, few hits", "fs.search", `{"pattern":"needle_\\w+\\(\\d+","regexp":true}`, "needle_in_haystack", []string{`needle_\w+\(\d+`}, []string{"grep", "-E", `needle_[[:alnum:]_]+\([0-9]+`}},
		{"expression, a hit in each file", "fs.search", `{"pattern":"func \\w+\\(ctx","regexp":true,"mode":"count","max_results":20000}`, "mod", []string{"-c", `func \w+\(ctx`}, []string{"grep", "-cE", `func [[:alnum:]_]+\(ctx`}},
		{"expression without a literal, few hits", "fs.search", `{"pattern":"\\w+\\(\\d\\d\\)","regexp":true}`, "needle_in_haystack", []string{`\w+\(\d\d\)`}, []string{"grep", "-E", `[[:alnum:]_]+\([0-9][0-9]\)`}},
		{"glob", "fs.glob", `{"pattern":"**/*.go","limit":20000}`, ".go", []string{"--files", "-g", "*.go"}, nil},
	} {
		input := filepath.Join(dir, "query.json")
		if err := os.WriteFile(input, []byte(q.input), 0o600); err != nil {
			return nil, err
		}
		ours := &contender{name: q.skill, argv: []string{filepath.Join(dir, "skills", q.skill)}, stdin: input, env: []string{"LATTICE_WORKSPACE=" + tree}, seen: `"ok":true`}
		rivals := []*contender{{name: "rg", argv: append([]string{"rg"}, q.rg...), seen: q.seen}}
		if q.git != nil {
			rivals = append(rivals, &contender{name: "git grep", argv: append([]string{"git"}, q.git...), seen: q.seen})
		}
		if err := race(ctx, tree, rounds, append([]*contender{ours}, rivals...)); err != nil {
			return nil, err
		}
		for _, r := range rivals {
			f := figure{Name: fmt.Sprintf("%s in %d files: %s", q.skill, treeFiles, q.name), Value: 1000 * median(ours.times), Unit: "ms", Beside: r.name}
			if r.missing {
				f.Skipped = r.name + " is not on this machine"
			} else {
				f.Ratio = ours.against(r)
				f = f.atMost(f.Ratio, 2)
			}
			figures = append(figures, f)
		}
	}
	return figures, nil
}

// plant writes a tree of source files, about 2 KiB each, the same each time.
func plant(tree string) error {
	r := rand.New(rand.NewPCG(1, 40_000))
	words := make([]string, 4000)
	for i := range words {
		word := make([]byte, 2+r.IntN(8))
		for j := range word {
			word[j] = byte('a' + r.IntN(26))
		}
		words[i] = string(word)
	}
	suffixes := []string{".go", ".go", ".js", ".py", ".md"}
	for i := range treeFolders {
		folder := filepath.Join(tree, fmt.Sprintf("pkg%d/mod%d/sub%d", i%20, i/20%20, i/400))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for j := range treeFolderSize {
			f, err := os.Create(filepath.Join(folder, fmt.Sprintf("file%d%s", j, suffixes[j%len(suffixes)])))
			if err != nil {
				return err
			}
			w := bufio.NewWriter(f)
			for line := range 50 {
				for range 6 {
					fmt.Fprint(w, words[r.IntN(len(words))], " ") // Flush repeats the error
				}
				if line == 5 && i%50 == 7 && j == 3 {
					fmt.Fprint(w, "needle_in_haystack(42)")
				}
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w, "func handler(ctx, w) error {")
			if err := w.Flush(); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(tree, ".gitignore"), []byte("node_modules/\n*.o\n*.log\n/dist\n"), 0o600)
}
