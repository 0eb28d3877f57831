package dropin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/fault"
)

var errNotDir = syscall.ENOTDIR

// Keep copies a skill's folder below root, once per content, and returns the copy: root/<digest>/<name>. A copy of a
// copy is itself. Only files, folders and links that stay in the folder can be taken along.
func Keep(root string, s Skill) (string, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("keep skill %s: %w", s.Name, err)
	}
	tmp, err := os.MkdirTemp(root, ".new-")
	if err != nil {
		return "", fmt.Errorf("keep skill %s: %w", s.Name, err)
	}
	defer os.RemoveAll(tmp)
	c := copier{sum: sha256.New()}
	if err := c.copyTree(s.Dir, filepath.Join(tmp, s.Name)); err != nil {
		if fault.As(err) != nil {
			return "", err
		}
		return "", fmt.Errorf("keep skill %s: %w", s.Name, err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("keep skill %s: %w", s.Name, err)
	}
	to := filepath.Join(root, hex.EncodeToString(c.sum.Sum(nil)[:16]))
	if err := renameFolder(tmp, to); err != nil {
		return "", fmt.Errorf("keep skill %s: %w", s.Name, err)
	}
	return filepath.Join(to, s.Name), nil
}

// Compose makes to, a folder like base, which an install made, with copies of skills next to it. It is made once: a folder
// that exists is taken for it.
func Compose(base string, kept []string, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("compose skills: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return fmt.Errorf("compose skills: %w", err)
	}
	defer os.RemoveAll(tmp)
	all := filepath.Join(tmp, "skills")
	if err := (&copier{link: true}).copyTree(base, all); err != nil {
		return fmt.Errorf("compose skills: %w", err)
	}
	for _, dir := range kept {
		if err := (&copier{link: true}).copyTree(dir, filepath.Join(all, filepath.Base(dir))); err != nil {
			return fmt.Errorf("compose skills: %w", err)
		}
	}
	if err := renameFolder(all, to); err != nil {
		return fmt.Errorf("compose skills: %w", err)
	}
	return nil
}

// renameFolder puts a folder in its place, unless another process has put the same there.
func renameFolder(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

// copier copies a tree. Every user may read the copy and none may write its files; executable files stay executable.
type copier struct {
	sum   hash.Hash // of names, kinds and contents, when it is wanted
	link  bool      // link files instead of copying them, where that goes: they never change
	files int
	bytes int64
}

func (c *copier) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if c.files++; c.sum != nil && c.files > maxFiles {
			return inputError("keep what it needs in the image", "%s holds more than %d files", from, maxFiles)
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			c.addToDigest("folder", rel, "")
			return os.Mkdir(target, 0o755)
		case e.Type() == fs.ModeSymlink:
			leads, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if !linkStaysInside(rel, leads) {
				return inputError("copy what it leads to into the folder", "%s leads out of the skill's folder", path)
			}
			c.addToDigest("link", rel, leads)
			return os.Symlink(leads, target)
		case e.Type().IsRegular():
			return c.copyFile(path, rel, target)
		}
		return inputError("remove it from the skill's folder", "%s is neither a file nor a folder", path)
	})
}

func (c *copier) copyFile(path, rel, target string) error {
	if c.link && os.Link(path, target) == nil {
		return nil
	}
	src, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	mode, kind := fs.FileMode(0o444), "file"
	if info.Mode()&0o111 != 0 {
		mode, kind = 0o555, "program"
	}
	dst, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	content := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, content), io.LimitReader(src, maxBytes-c.bytes+1))
	if err = errors.Join(err, dst.Chmod(mode), dst.Close()); err != nil {
		return err
	}
	if c.bytes += n; c.bytes > maxBytes {
		return inputError("keep what it needs in the image", "the files of %s are larger than %d MiB", strings.TrimSuffix(path, rel), maxBytes>>20)
	}
	c.addToDigest(kind, rel, hex.EncodeToString(content.Sum(nil)))
	return nil
}

func (c *copier) addToDigest(kind, rel, what string) {
	if c.sum != nil {
		fmt.Fprintf(c.sum, "%s %q %q\n", kind, rel, what)
	}
}
