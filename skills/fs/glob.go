package fs

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/spritekit/lattice/skills/fs/walk"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultPaths = 1000
	maxPaths     = 20000
)

type globInput struct {
	Pattern string   `json:"pattern"`
	Path    string   `json:"path"`
	Exclude []string `json:"exclude"`
	Type    string   `json:"type"`
	Hidden  *bool    `json:"hidden"`
	Ignored bool     `json:"ignored"`
	Limit   int      `json:"limit"`
}

type globData struct {
	Path      string   `json:"path"`
	Paths     []string `json:"paths"`
	Count     int      `json:"count"`
	Truncated bool     `json:"truncated"`
}

// globPaths does the work of fs.glob.
func globPaths(ctx context.Context, c *skill.Call, in globInput) (*globData, error) {
	pattern, err := newGlobs("/pattern", strings.TrimPrefix(in.Pattern, "./"))
	if err != nil {
		return nil, err
	}
	exclude, err := newGlobs("/exclude", in.Exclude...)
	if err != nil {
		return nil, err
	}
	wanted, err := typeFilter(cmp.Or(in.Type, "file"))
	if err != nil {
		return nil, err
	}
	if in.Limit = cmp.Or(in.Limit, defaultPaths); in.Limit < 0 || in.Limit > maxPaths {
		return nil, skill.BadInput("/limit", "is not between 1 and %d", maxPaths)
	}
	base, err := resolveFolder(c, in.Path)
	if err != nil {
		return nil, err
	}
	found := first[string]{limit: in.Limit, path: func(p string) string { return p }, size: func(string) int { return 1 }}
	start, ok := startOf(c, base, pattern[0])
	skipped := 0
	if ok {
		skipped, err = walk.Tree(ctx, c.Root, start, walk.Options{
			Hidden: in.Hidden == nil || *in.Hidden, Ignored: in.Ignored,
			Enter: func(dir string) bool { return found.enter(dir) && !exclude.matchesBase(relativeTo(base, dir)) },
		}, func(_ int, e *walk.Entry) error {
			rel := relativeTo(base, e.Path)
			if wanted(e.Type) && found.wanted(e.Path) && pattern.matchesAll(rel) && !exclude.matchesBase(rel) {
				found.add(e.Path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	warnSkipped(c, skipped)
	data := globData{Path: base}
	data.Paths, data.Truncated = found.sorted()
	if data.Count = len(data.Paths); data.Count == 0 {
		data.Paths = []string{}
		if !strings.Contains(in.Pattern, "/") {
			c.Warn("top_level_only", "the pattern matches only what lies directly in "+base+"; **/"+in.Pattern+" matches at any depth")
		}
	}
	return &data, nil
}

// startOf is the folder below base where all matches of a pattern lie. There is none when the pattern names one that is
// not there, or asks for a link to one.
func startOf(c *skill.Call, base, pattern string) (start string, ok bool) {
	_, rest := doublestar.SplitPattern(pattern)
	literal := unescape(strings.TrimSuffix(pattern, rest))
	start = base
	for part := range strings.SplitSeq(path.Clean(literal), "/") {
		if part == "." {
			continue
		}
		start = path.Join(start, part)
		if info, err := c.Root.Lstat(start); err != nil || !info.IsDir() {
			return "", false
		}
	}
	return start, true
}

// unescape returns the text that a pattern without special characters matches.
func unescape(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// resolveFolder is the folder that an input names, the workspace when it names none.
func resolveFolder(c *skill.Call, name string) (string, error) {
	rel, err := c.Root.Rel(cmp.Or(name, "."))
	if err != nil {
		return "", err
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return "", explainMissing(c, rel, err)
	}
	if !info.IsDir() {
		return "", fault.Failed("not_a_directory", "%s is not a folder", rel).WithHint("name the folder that holds it")
	}
	return rel, nil
}

func typeFilter(name string) (func(fs.FileMode) bool, error) {
	switch name {
	case "file":
		return fs.FileMode.IsRegular, nil
	case "dir":
		return fs.FileMode.IsDir, nil
	case "symlink":
		return func(t fs.FileMode) bool { return t&fs.ModeSymlink != 0 }, nil
	case "any":
		return func(fs.FileMode) bool { return true }, nil
	}
	return nil, skill.BadInput("/type", "%q is none of file, dir, symlink, any", name)
}

func warnSkipped(c *skill.Call, folders int) {
	if folders > 0 {
		c.Warn("unreadable", formatCount(folders, "folder")+" could not be read")
	}
}
