package worktree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// Limits of a sprite's objects once they are unpacked.
const (
	maxRecordSize = 16 << 20  // bytes of one commit, tree or tag
	maxInflated   = 4 << 30   // bytes of all together
	maxPaths      = 200_000   // changed paths
	maxDepth      = 256       // folders in folders
	maxTrees      = 256 << 20 // bytes of all changed folders, as git stores them
	maxChanges    = 1_000_000 // entries of these that differ
)

// checkSizes refuses packs whose objects are too large unpacked. The pack has been indexed.
func (q quarantine) checkSizes(ctx context.Context) error {
	indexes, err := filepath.Glob(filepath.Join(q.dir, "objects/pack/*.idx"))
	if err != nil || len(indexes) != 1 {
		return fmt.Errorf("find the index of the sprite's pack: %d files, %v", len(indexes), err)
	}
	index, err := os.Open(indexes[0])
	if err != nil {
		return fmt.Errorf("open the index of the sprite's pack: %w", err)
	}
	defer index.Close()
	list := q.gitCommand("show-index", "--object-format="+q.format)
	list.Stdin = index
	r, err := q.git.proc.MustRun(ctx, list)
	if err != nil {
		return err
	}
	var ids bytes.Buffer
	for l := range strings.Lines(string(r.Stdout)) { // OFFSET ID (CRC)
		if f := strings.Fields(l); len(f) >= 2 {
			ids.WriteString(f[1] + "\n")
		}
	}
	ask := q.gitCommand("cat-file", "--batch-check=%(objecttype) %(objectsize)", "--buffer")
	ask.Stdin = &ids
	if r, err = q.git.proc.MustRun(ctx, ask); err != nil {
		return err
	}
	total := int64(0)
	for l := range strings.Lines(string(r.Stdout)) {
		kind, text, _ := strings.Cut(strings.TrimSpace(l), " ")
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("measure the sprite's objects: git says %q", gitexec.CleanLine(l))
		}
		most := int64(maxRecordSize)
		if kind == "blob" {
			most = q.git.maxFile
		}
		if size > most {
			return gitexec.Refuse("limit_exceeded", "push without very large files", "a %s of the bundle has %d bytes; the limit is %d", kind, size, most)
		}
		if total += size; total > maxInflated {
			return gitexec.Refuse("limit_exceeded", "push in smaller steps", "the bundle's objects have more than %d bytes unpacked", int64(maxInflated))
		}
	}
	return nil
}

// treePair holds the ids of a folder's tree before and after; "" is absent.
type treePair struct{ before, after string }

// treeDiff is the difference of a treePair, one level deep.
type treeDiff struct {
	files, bytes int64 // changed files, and the length of their names
	below        []subtree
}

type subtree struct {
	name int64 // length
	pair treePair
}

// checkPaths refuses a diff with too many paths before git lists them: thirteen trees can describe billions. It reads each
// pair of trees once, breadth first.
func (q quarantine) checkPaths(ctx context.Context, base, head string) error {
	roots, err := q.mustRun(ctx, "rev-parse", base+"^{tree}", head+"^{tree}")
	if err != nil {
		return err
	}
	before, after, _ := strings.Cut(roots.StdoutText(), "\n")
	root := treePair{before, after}
	if before == after {
		return nil
	}
	known := map[treePair]*treeDiff{}
	level := []treePair{root}
	read, changes := 0, 0
	for depth := 0; len(level) > 0; depth++ {
		if depth == maxDepth {
			return gitexec.Refuse("limit_exceeded", "nest folders less deeply", "the push has folders more than %d levels deep", maxDepth)
		}
		trees, n, err := q.readTrees(ctx, level)
		if err != nil {
			return err
		}
		read += n
		var next []treePair
		for _, p := range level {
			d := compareTrees(trees[p.before], trees[p.after])
			known[p] = d
			if changes += len(d.below) + int(d.files); changes > maxChanges {
				return tooManyPaths()
			}
			for _, s := range d.below {
				if _, ok := known[s.pair]; !ok {
					known[s.pair] = nil // asked for
					next = append(next, s.pair)
				}
			}
		}
		if len(known) > maxPaths || read > maxTrees {
			return tooManyPaths()
		}
		level = next
	}
	sums := map[treePair][2]int64{}
	if s := sumPaths(root, known, sums); s[0] > maxPaths || s[1] > gitexec.MaxOutput/2 {
		return tooManyPaths()
	}
	return nil
}

func tooManyPaths() error {
	return gitexec.Refuse("limit_exceeded", "push in smaller steps", "the push changes too many files to be inspected (more than %d, or paths of more than %d MiB)", maxPaths, gitexec.MaxOutput>>21)
}

// sumPaths counts the files below a pair and the bytes of their paths; sums remembers pairs. Numbers stop growing far
// above the limits.
func sumPaths(p treePair, known map[treePair]*treeDiff, sums map[treePair][2]int64) [2]int64 {
	if s, ok := sums[p]; ok {
		return s
	}
	d := known[p]
	s := [2]int64{d.files, d.bytes}
	for _, sub := range d.below {
		below := sumPaths(sub.pair, known, sums)
		s[0] = min(s[0]+below[0], 1<<31)
		s[1] = min(s[1]+below[1]+below[0]*(sub.name+1), 1<<50)
	}
	sums[p] = s
	return s
}

// treeEntry is a line of a tree.
type treeEntry struct{ mode, id string }

func (e treeEntry) isTree() bool { return e.mode == "40000" }

// readTrees reads the trees that pairs name; n is their size.
func (q quarantine) readTrees(ctx context.Context, pairs []treePair) (trees map[string]map[string]treeEntry, n int, err error) {
	var ids []string
	for _, p := range pairs {
		ids = append(ids, p.before, p.after)
	}
	bodies, n, err := q.readObjects(ctx, "tree", ids)
	if err != nil {
		return nil, 0, err
	}
	trees = make(map[string]map[string]treeEntry, len(bodies))
	for id, body := range bodies {
		if trees[id], err = parseTree(body, len(id)/2); err != nil {
			return nil, 0, err
		}
	}
	return trees, n, nil
}

// readObjects reads objects of one kind, each once; n is their total size. It ignores the id "".
func (q quarantine) readObjects(ctx context.Context, kind string, ids []string) (bodies map[string][]byte, n int, err error) {
	bodies = map[string][]byte{}
	var ask bytes.Buffer
	for _, id := range ids {
		if _, ok := bodies[id]; !ok && id != "" {
			bodies[id] = nil
			ask.WriteString(id + "\n")
		}
	}
	if len(bodies) == 0 {
		return bodies, 0, nil
	}
	c := q.gitCommand("cat-file", "--batch", "--buffer")
	c.Stdin = &ask
	r, err := q.git.proc.MustRun(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	for rest := r.Stdout; len(rest) > 0; { // ID KIND SIZE, the object, a newline
		head, body, _ := bytes.Cut(rest, []byte("\n"))
		f := strings.Fields(string(head))
		if len(f) != 3 || f[1] != kind {
			return nil, 0, gitexec.Refuse("bad_bundle", "", "a %s of the bundle cannot be read: %s", kind, gitexec.CleanLine(string(head)))
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size >= len(body) {
			return nil, 0, fmt.Errorf("read git cat-file: an object is cut")
		}
		bodies[f[0]], rest = body[:size], body[size+1:]
	}
	return bodies, len(r.Stdout), nil
}

// parseTree reads a tree object: "MODE NAME\0ID" over and over, the id in bytes.
func parseTree(body []byte, width int) (map[string]treeEntry, error) {
	entries := map[string]treeEntry{}
	for len(body) > 0 {
		head, rest, ok := bytes.Cut(body, []byte{0})
		mode, name, ok2 := bytes.Cut(head, []byte(" "))
		if !ok || !ok2 || len(rest) < width {
			return nil, gitexec.Refuse("bad_bundle", "", "a tree of the bundle cannot be read")
		}
		entries[string(name)] = treeEntry{string(mode), string(rest[:width])}
		body = rest[width:]
	}
	return entries, nil
}

// compareTrees compares two trees as git diff-tree does: a file that becomes a folder counts on both sides.
func compareTrees(before, after map[string]treeEntry) *treeDiff {
	d := &treeDiff{}
	add := func(name string, was, is treeEntry) {
		pair := treePair{}
		if was.isTree() {
			pair.before = fmt.Sprintf("%x", was.id)
		}
		if is.isTree() {
			pair.after = fmt.Sprintf("%x", is.id)
		}
		if pair != (treePair{}) {
			d.below = append(d.below, subtree{int64(len(name)), pair})
		}
		if was.mode != "" && !was.isTree() || is.mode != "" && !is.isTree() {
			d.files++
			d.bytes += int64(len(name))
		}
	}
	for name, was := range before {
		if is := after[name]; is != was {
			add(name, was, is)
		}
	}
	for name, is := range after {
		if _, ok := before[name]; !ok {
			add(name, treeEntry{}, is)
		}
	}
	return d
}
