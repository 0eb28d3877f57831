package fs

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

type mkdirInput struct {
	Path    string `json:"path"`
	Parents *bool  `json:"parents"`
	ExistOK *bool  `json:"exist_ok"`
	Mode    string `json:"mode"`
}

type mkdirData struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
	Mode    string `json:"mode"`
}

// makeFolder does the work of fs.mkdir.
func makeFolder(_ context.Context, c *skill.Call, in mkdirInput) (*mkdirData, error) {
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	rel, err := resolveEntry(c, in.Path, "/path")
	if err != nil {
		return nil, err
	}
	if err := makeParents(c, rel, in.Parents); err != nil {
		return nil, err
	}
	err = c.Root.Mkdir(rel, 0o755)
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		info, serr := c.Root.Stat(rel)
		if serr != nil || !info.IsDir() || in.ExistOK != nil && !*in.ExistOK {
			return nil, newExistsError(rel, "choose another name, or fs.remove what is there")
		}
		err = nil
	}
	if err == nil && mode != 0 && created { // an existing folder keeps its mode
		err = c.Root.Chmod(rel, mode)
	}
	if err == nil {
		err = c.Root.SyncDir(path.Dir(rel))
	}
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return nil, err
	}
	return &mkdirData{Path: rel, Created: created, Mode: formatMode(info.Mode())}, nil
}

func newExistsError(rel, hint string) error {
	return fault.Failed("exists", "%s exists already", rel).WithHint("%s", hint)
}
