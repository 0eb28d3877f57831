package fs

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	defaultEntries = 1000
	maxEntries     = 20000
)

type listInput struct {
	Path       string `json:"path"`
	Recursive  bool   `json:"recursive"`
	Depth      int    `json:"depth"`
	MaxEntries int    `json:"max_entries"`
}

type listEntry struct {
	Path   string `json:"path"` // relative to the workspace
	Type   string `json:"type"` // file, dir, symlink, other
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	Target string `json:"target,omitempty"` // of a symlink
}

type listData struct {
	Path      string      `json:"path"`
	Entries   []listEntry `json:"entries"`
	Count     int         `json:"count"`
	Truncated bool        `json:"truncated"`
}

// listFolder does the work of fs.list.
func listFolder(ctx context.Context, c *skill.Call, in listInput) (*listData, error) {
	in.MaxEntries = cmp.Or(in.MaxEntries, defaultEntries)
	if in.MaxEntries < 0 || in.MaxEntries > maxEntries {
		return nil, skill.BadInput("/max_entries", "is not between 1 and %d", maxEntries)
	}
	if in.Depth < 0 {
		return nil, skill.BadInput("/depth", "is negative")
	}
	rel, err := c.Root.Rel(cmp.Or(in.Path, "."))
	if err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	if !info.IsDir() {
		return nil, fault.Failed("not_a_directory", "%s is not a folder", rel).WithHint("fs.read reads a file")
	}
	l := lister{call: c, in: in, data: listData{Path: rel, Entries: []listEntry{}}}
	if err := l.listFolder(ctx, rel, 1); err != nil {
		return nil, err
	}
	slices.SortFunc(l.data.Entries, func(a, b listEntry) int { return cmp.Compare(a.Path, b.Path) })
	l.data.Count = len(l.data.Entries)
	return &l.data, nil
}

type lister struct {
	call *skill.Call
	in   listInput
	data listData
}

func (l *lister) listFolder(ctx context.Context, dir string, level int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := l.call.Root.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if name == protocol.Dir || workspace.IsTemp(name) {
			continue // the runtime's own
		}
		if len(l.data.Entries) >= l.in.MaxEntries {
			l.data.Truncated = true
			return nil
		}
		info, err := l.call.Root.Lstat(name)
		if err != nil {
			continue // removed since it was listed
		}
		l.data.Entries = append(l.data.Entries, l.describeEntry(name, info))
		deeper := l.in.Recursive && (l.in.Depth == 0 || level < l.in.Depth)
		if !info.IsDir() || !deeper || e.Name() == ".git" {
			continue
		}
		if err := l.listFolder(ctx, name, level+1); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) describeEntry(name string, info fs.FileInfo) listEntry {
	entry := listEntry{Path: name, Type: "other", Mode: formatMode(info.Mode())}
	switch {
	case info.Mode().IsRegular():
		entry.Type, entry.Size = "file", info.Size()
	case info.IsDir():
		entry.Type = "dir"
	case info.Mode()&fs.ModeSymlink != 0:
		entry.Type = "symlink"
		// A link that vanished in between has no target to show.
		entry.Target, _ = l.call.Root.Readlink(name)
	}
	return entry
}
