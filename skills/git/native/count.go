package native

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/ignore"
)

// countCommit counts the files and lines that a commit changes against its first parent.
func (r *repo) countCommit(ctx context.Context, c *object.Commit) (engine.Stats, error) {
	var s engine.Stats
	var before plumbing.Hash
	if len(c.ParentHashes) > 0 {
		var err error
		if before, err = r.TreeOf(c.ParentHashes[0]); err != nil {
			return s, err
		}
	}
	err := r.compareTrees(ctx, before, c.TreeHash, func(c change) error {
		s.Files++
		if c.from.id == c.to.id || r.attributesOf(c.path).binary {
			return nil
		}
		old, oldBinary, err := r.readContent(c.from)
		if err != nil {
			return err
		}
		now, binary, err := r.readContent(c.to)
		if err != nil || binary || oldBinary {
			return err
		}
		added, deleted := countLines(old, now)
		s.Additions, s.Deletions = s.Additions+added, s.Deletions+deleted
		return nil
	})
	return s, err
}

// attributesOf reads the attributes of one path, from the work tree.
func (r *repo) attributesOf(name string) conversion {
	info, _ := r.ReadSmall("info/attributes") // git ignores one that it cannot read
	a := attributes(nil).withFile("", info)
	root, err := os.OpenRoot(r.at.Dir)
	if err != nil {
		return a.joinAttributes(name)
	}
	defer root.Close()
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if info, err := root.Lstat(path.Join(dir, attributesFile)); err == nil && info.Mode().IsRegular() && info.Size() < ignore.MaxFile {
			if data, err := root.ReadFile(path.Join(dir, attributesFile)); err == nil {
				a = a.withFile(dir, data)
			}
		}
		if dir == "." {
			return a.joinAttributes(name)
		}
	}
}

// readContent returns the content of a file, and whether git takes it for binary.
func (r *repo) readContent(s side) ([]byte, bool, error) {
	switch kindOf(s.mode) {
	case 0:
		return nil, false, nil
	case modeSubmodule:
		return []byte("Subproject commit " + s.id.String() + "\n"), false, nil
	}
	blob, err := object.GetBlob(r.Store, s.id)
	if err != nil {
		return nil, false, err
	}
	const bigFile = 512 << 20 // git's core.bigFileThreshold
	if blob.Size >= bigFile {
		return nil, true, nil
	}
	f, err := blob.Reader()
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return data, bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0, err
}

// countLines counts the lines that b adds to a and takes from it: with Myers' greedy algorithm, the furthest point
// reached on each diagonal with d differences.
func countLines(a, b []byte) (added, deleted int) {
	numbers := map[string]int{}
	x, y := numberLines(a, numbers), numberLines(b, numbers)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	n, m := len(x), len(y)
	const maxSteps = 1 << 14 // beyond it every line counts as changed
	most := min(n+m, maxSteps)
	furthest := make([]int, 2*most+3)
	for d := 0; d <= most && n > 0 && m > 0; d++ {
		for k := -d; k <= d; k += 2 {
			if k > n || -k > m {
				continue
			}
			at, origin := 0, most+1+k
			switch {
			case d == 0:
			case k == -d || k != d && furthest[origin-1] < furthest[origin+1]:
				at = furthest[origin+1]
			default:
				at = furthest[origin-1] + 1
			}
			for at < n && at-k < m && at-k >= 0 && x[at] == y[at-k] {
				at++
			}
			if furthest[origin] = at; at >= n && at-k >= m {
				common := (n + m - d) / 2
				return m - common, n - common
			}
		}
	}
	return m, n
}

// numberLines gives equal lines equal numbers.
func numberLines(data []byte, numbers map[string]int) []int {
	var list []int
	for line := range bytes.Lines(data) {
		n, ok := numbers[string(line)]
		if !ok {
			n = len(numbers)
			numbers[string(line)] = n
		}
		list = append(list, n)
	}
	return list
}
