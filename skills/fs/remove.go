package fs

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

type removeInput struct {
	Path       string `json:"path"`
	Recursive  bool   `json:"recursive"`
	MissingOK  bool   `json:"missing_ok"`
	Expect     string `json:"expect_sha256"`
	MaxEntries int    `json:"max_entries"`
}

type removeData struct {
	Path    string `json:"path"`
	Removed bool   `json:"removed"`
	Type    string `json:"type,omitempty"`
	Entries int    `json:"entries"` // files and folders that went
}

// removePath does the work of fs.remove. It removes a symlink, not its target.
func removePath(ctx context.Context, c *skill.Call, in removeInput) (*removeData, error) {
	t := transfer{maxEntries: in.MaxEntries}
	if err := t.checkLimits(); err != nil {
		return nil, err
	}
	rel, err := resolveEntry(c, in.Path, "/path")
	if err != nil {
		return nil, err
	}
	info, err := c.Root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) && in.MissingOK {
		return &removeData{Path: rel}, nil
	}
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	if err := expectSource(ctx, c, rel, in.Expect, info); err != nil {
		return nil, err
	}
	entries := 1
	if info.IsDir() {
		n, err := countEntries(ctx, c, rel, t.maxEntries)
		if err != nil {
			return nil, err
		}
		if n > t.maxEntries {
			return nil, tooMany(t.maxEntries)
		}
		if entries += n; n > 0 && !in.Recursive {
			return nil, fault.Failed("not_empty", "%s is a folder that is not empty", rel).
				WithHint(`set "recursive":true to remove all of it`)
		}
	}
	if info.IsDir() {
		err = c.Root.RemoveAll(rel)
	} else {
		err = c.Root.Remove(rel)
	}
	if err == nil {
		err = c.Root.SyncDir(path.Dir(rel))
	}
	if err != nil {
		return nil, err
	}
	return &removeData{Path: rel, Removed: true, Type: typeName(info.Mode()), Entries: entries}, nil
}

// countEntries is how many files and folders lie in a folder, at any depth. It does not go on beyond the limit.
func countEntries(ctx context.Context, c *skill.Call, dir string, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	entries, err := c.Root.List(dir)
	if err != nil {
		return 0, err
	}
	n := len(entries)
	for _, e := range entries {
		if n > limit {
			break
		}
		if !e.IsDir() {
			continue
		}
		inner, err := countEntries(ctx, c, path.Join(dir, e.Name()), limit-n)
		if err != nil {
			return 0, err
		}
		n += inner
	}
	return n, nil
}
