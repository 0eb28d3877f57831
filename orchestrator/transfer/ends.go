package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// This file has the two ends of `lattice sprite cp`: where files come from and where they go, here and in a sprite.

// spriteSink puts files into a sprite.
type spriteSink struct {
	ctx         context.Context // of the copy
	c           *sprites.Client
	sprite, top string
}

func (s *spriteSink) folder(rel string) error {
	st, err := s.c.Files().Stat(s.ctx, s.sprite, path.Join(s.top, rel))
	if err == nil && st.IsDir {
		return nil
	}
	return s.c.Files().Mkdir(s.ctx, s.sprite, path.Join(s.top, rel))
}

func (s *spriteSink) file(rel string, content io.Reader, mode fs.FileMode) error {
	return s.c.WriteFile(s.ctx, s.sprite, path.Join(s.top, rel), content, uint32(mode))
}

func (s *spriteSink) mode(rel string, mode fs.FileMode) error {
	return s.c.Files().Chmod(s.ctx, s.sprite, path.Join(s.top, rel), uint32(mode.Perm()), false)
}

func (s *spriteSink) close() error { return nil }

// localSink puts files below a folder of this machine, and nowhere else, no matter their names and the links there.
type localSink struct {
	root *os.Root
	base string // the copy's top in root
}

func newLocalSink(dest string) (*localSink, error) {
	dir, base := filepath.Split(filepath.Clean(dest))
	root, err := os.OpenRoot(filepath.Clean("./" + dir))
	if filepath.IsAbs(dest) {
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, err
	}
	return &localSink{root, base}, nil
}

func (s *localSink) hostPath(rel string) string {
	return filepath.Join(s.base, filepath.FromSlash(rel))
}

func (s *localSink) folder(rel string) error {
	err := s.root.Mkdir(s.hostPath(rel), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// file writes a new file and puts it in its place.
func (s *localSink) file(rel string, content io.Reader, mode fs.FileMode) error {
	name := s.hostPath(rel)
	if st, err := s.root.Lstat(name); err == nil && st.IsDir() {
		return fmt.Errorf("%s is a folder", name)
	}
	temp := filepath.Join(filepath.Dir(name), ".lattice-"+rand.Text())
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = s.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(temp))
	}
	return nil
}

func (s *localSink) mode(rel string, mode fs.FileMode) error {
	return s.root.Chmod(s.hostPath(rel), mode)
}

func (s *localSink) close() error { return s.root.Close() }

// walkLocal gives the entries to copy from this machine.
func (j *copyJob) walkLocal(_ context.Context, give func(copyItem) error) error {
	top := j.from.path
	st, err := os.Stat(top)
	switch {
	case err != nil:
		return err
	case st.IsDir() && !j.recursive:
		return errFolder(j.from)
	case st.IsDir():
		top += string(filepath.Separator) // a link to a folder is walked, too
	}
	return filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(j.from.path, name)
		if err != nil {
			return err
		}
		if rel == "." {
			rel = ""
		}
		st, err := os.Stat(name) // through links
		if err != nil || st.IsDir() && !e.IsDir() || !st.IsDir() && !st.Mode().IsRegular() {
			j.done.Skipped = append(j.done.Skipped, name)
			return nil
		}
		return give(copyItem{filepath.ToSlash(rel), st.Mode(), st.Size(), st.IsDir(), func() (io.ReadCloser, error) { return os.Open(name) }})
	})
}

// walkSprite yields the files to copy from a sprite, which chooses the names: they are taken literally below the
// copy's top, or not at all.
func (j *copyJob) walkSprite(ctx context.Context, give func(copyItem) error) error {
	top, err := j.c.Files().Stat(ctx, j.from.Sprite, j.from.path)
	if err != nil {
		return err
	}
	if top.IsDir && !j.recursive {
		return errFolder(j.from)
	}
	if err := give(j.spriteItem(ctx, "", top)); err != nil || !top.IsDir {
		return err
	}
	all, err := j.c.Files().Tree(ctx, j.from.Sprite, j.from.path, "")
	if err != nil {
		return err
	}
	for _, f := range all {
		rel, below := strings.CutPrefix(f.Path, strings.TrimSuffix(j.from.path, "/")+"/")
		if !below || !filepath.IsLocal(filepath.FromSlash(rel)) {
			return fmt.Errorf("the sprite lists %q, which is not below %s", f.Path, j.from.path)
		}
		err := give(j.spriteItem(ctx, rel, f))
		if refused, ok := errors.AsType[*sprites.APIError](err); ok && refused.Code != "" && (f.Type == "symlink" || refused.Code == "EINVAL") {
			j.done.Skipped = append(j.done.Skipped, f.Path) // a link to a folder or to nothing, a socket, a FIFO
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *copyJob) spriteItem(ctx context.Context, rel string, f sprites.FileInfo) copyItem {
	bits, err := strconv.ParseUint(f.Mode, 8, 12)
	if err != nil {
		bits = 0o644
		if f.IsDir {
			bits = 0o755
		}
	}
	size := f.Size
	if f.Type == "symlink" {
		bits, size = 0o644, 0
	}
	open := func() (io.ReadCloser, error) { return j.c.ReadFrom(ctx, j.from.Sprite, f.Path, 0) }
	return copyItem{rel, fs.FileMode(bits) & fs.ModePerm, size, f.IsDir, open}
}
