package fs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/skill"
)

type moveInput struct {
	From       string `json:"from"`
	To         string `json:"to"`
	Overwrite  bool   `json:"overwrite"`
	CreateDirs *bool  `json:"create_dirs"`
	Expect     string `json:"expect_sha256"`
}

type moveData struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Type        string `json:"type"`
	Overwritten bool   `json:"overwritten"`
}

// movePath does the work of fs.move. The name changes in one step; between file systems the copy is whole before the original goes.
func movePath(ctx context.Context, c *skill.Call, in moveInput) (*moveData, error) {
	from, err := resolveEntry(c, in.From, "/from")
	if err != nil {
		return nil, err
	}
	p, err := preparePassage(ctx, c, from, in.To, in.Overwrite, in.Expect)
	if err != nil {
		return nil, err
	}
	if err := makeParents(c, p.to, in.CreateDirs); err != nil {
		return nil, err
	}
	err = p.renameFrom(c, from)
	if errors.Is(err, syscall.EXDEV) {
		t := transfer{call: c, maxEntries: maxTreeEntries, maxBytes: maxTreeBytes}
		if err = t.replaceTarget(ctx, p, from); err == nil {
			err = c.Root.RemoveAll(from)
		}
	}
	if err == nil {
		err = errors.Join(c.Root.SyncDir(path.Dir(p.to)), c.Root.SyncDir(path.Dir(from)))
	}
	if err != nil {
		return nil, fmt.Errorf("move %s to %s: %w", from, p.to, err)
	}
	return &moveData{From: from, To: p.to, Type: typeName(p.info.Mode()), Overwritten: p.old != nil}, nil
}

// passage is a move or copy that passed the checks: both ends are allowed, and an existing target may be replaced.
type passage struct {
	info fs.FileInfo // of the source
	to   string
	old  fs.FileInfo // of the file that is overwritten, nil for none
}

func preparePassage(ctx context.Context, c *skill.Call, from, to string, overwrite bool, expect string) (passage, error) {
	var p passage
	var err error
	if p.to, err = resolveEntry(c, to, "/to"); err != nil {
		return p, err
	}
	if p.info, err = c.Root.Lstat(from); err != nil {
		return p, explainMissing(c, from, err)
	}
	if err := expectSource(ctx, c, from, expect, p.info); err != nil {
		return p, err
	}
	if from == p.to {
		return p, skill.BadInput("/to", "is the same as from")
	}
	if p.info.IsDir() && strings.HasPrefix(p.to, from+"/") {
		return p, skill.BadInput("/to", "lies in %s itself", from)
	}
	if p.old, err = c.Root.Lstat(p.to); errors.Is(err, fs.ErrNotExist) {
		p.old = nil
		return p, nil
	}
	switch {
	case err != nil:
		return p, err
	case os.SameFile(p.info, p.old) && strings.EqualFold(from, p.to):
		p.old = nil // another spelling of the same name, where case is ignored
	case !overwrite:
		return p, newExistsError(p.to, `set "overwrite":true to replace a file`)
	case !p.old.Mode().IsRegular() || p.info.IsDir():
		return p, newExistsError(p.to, "only files are replaced, and folders not merged: fs.remove what is there first, or name a place in it")
	}
	return p, nil
}

// expectSource judges expect_sha256 for the file that a verb takes away or copies.
func expectSource(ctx context.Context, c *skill.Call, rel, expect string, info fs.FileInfo) error {
	if err := checkExpect(expect); err != nil || expect == "" {
		return err
	}
	if expect == absent || !info.Mode().IsRegular() {
		return skill.BadInput("/expect_sha256", "needs a file, and %s is a %s", rel, typeName(info.Mode()))
	}
	found, err := digestFile(ctx, c, rel)
	if err == nil && found != expect {
		err = newChangedError(rel, found, expect)
	}
	return err
}

// renameFrom moves from to its new name. Where nothing may be overwritten a file gets its new name first, which fails when
// another process has made one since the check.
func (p passage) renameFrom(c *skill.Call, from string) error {
	if p.info.Mode().IsRegular() && p.old == nil {
		switch err := c.Root.Link(from, p.to); {
		case err == nil:
			return c.Root.Remove(from)
		case errors.Is(err, fs.ErrExist):
			if now, serr := c.Root.Lstat(p.to); serr != nil || !os.SameFile(now, p.info) {
				return newExistsError(p.to, "somebody made it just now: look at it, and decide anew")
			}
		}
	}
	return c.Root.Rename(from, p.to) // a file system without hard links, a folder, or a file that may be overwritten
}
