package fs

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/spritekit/lattice/spritekit/skill"
)

type statInput struct {
	Path      string `json:"path"`
	Follow    bool   `json:"follow"`
	MissingOK bool   `json:"missing_ok"`
	Hash      bool   `json:"hash"`
}

type statData struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	Type   string `json:"type,omitempty"`
	Size   int64  `json:"size"`
	Mode   string `json:"mode,omitempty"`
	MTime  string `json:"mtime,omitempty"`
	Links  uint64 `json:"links,omitempty"`
	Target string `json:"target,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// statPath does the work of fs.stat.
func statPath(ctx context.Context, c *skill.Call, in statInput) (*statData, error) {
	rel, err := c.Root.Rel(in.Path)
	if err != nil {
		return nil, err
	}
	look := c.Root.Lstat
	if in.Follow {
		look = c.Root.Stat
	}
	info, err := look(rel)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case missing && in.MissingOK:
		return &statData{Path: rel}, nil
	case err != nil:
		return nil, explainMissing(c, rel, err)
	}
	data := statData{
		Path: rel, Exists: true, Type: typeName(info.Mode()), Size: info.Size(), Mode: formatMode(info.Mode()),
		MTime: info.ModTime().UTC().Format(time.RFC3339Nano),
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		data.Links = uint64(st.Nlink)
	}
	switch data.Type {
	case "symlink":
		data.Target, err = c.Root.Readlink(rel)
	case "file":
		if in.Hash {
			data.SHA256, err = digestFile(ctx, c, rel)
		}
	}
	return &data, err
}
