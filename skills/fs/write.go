package fs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/spritekit/lattice/spritekit/skill"
)

type writeInput struct {
	contentInput
	Atomic *bool `json:"atomic"`
}

// contentInput is the input that fs.write and fs.append share: content, and the file that it is for.
type contentInput struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Mode       string `json:"mode"`
	CreateDirs *bool  `json:"create_dirs"`
	Expect     string `json:"expect_sha256"`
}

// target is a file that will be written. old is nil if it does not exist.
type target struct {
	rel  string
	data []byte
	mode fs.FileMode
	old  fs.FileInfo
}

// openTarget decodes the content, compares the file with expect_sha256 and makes its parent folders.
func (in contentInput) openTarget(ctx context.Context, c *skill.Call) (t target, err error) {
	if t.data, err = decodeContent(in.Content, in.Encoding); err != nil {
		return t, err
	}
	if t.mode, err = parseMode(in.Mode); err != nil {
		return t, err
	}
	if t.rel, err = resolveContent(c, in.Path); err != nil {
		return t, err
	}
	if t.old, err = statExpected(ctx, c, t.rel, in.Expect); err != nil {
		return t, err
	}
	return t, makeParents(c, t.rel, in.CreateDirs)
}

type writeData struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Created bool   `json:"created"`
	Mode    string `json:"mode"`
}

// writeFile does the work of fs.write.
func writeFile(ctx context.Context, c *skill.Call, in writeInput) (*writeData, error) {
	t, err := in.openTarget(ctx, c)
	if err != nil {
		return nil, err
	}
	if in.Atomic == nil || *in.Atomic {
		err = c.Root.WriteFile(t.rel, t.data, t.mode)
	} else {
		err = inPlace(c, t.rel, t.data, t.mode)
	}
	if err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(t.rel)
	if err != nil {
		return nil, err
	}
	sum := sumOf(t.data)
	return &writeData{
		Path: t.rel, Size: int64(len(t.data)), SHA256: sum, Created: t.old == nil, Mode: formatMode(info.Mode()),
	}, emitFile(c, t.rel, sum, int64(len(t.data)))
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func digestFile(ctx context.Context, c *skill.Call, rel string) (string, error) {
	f, err := openFile(c, rel)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p := picker{buffer: 64 << 10}
	if err := p.pickBytes(ctx, f, 0, new(int64)); err != nil {
		return "", fmt.Errorf("read %s: %w", rel, err)
	}
	return hex.EncodeToString(p.sum.Sum(nil)), nil
}

// inPlace overwrites a file without replacing it.
func inPlace(c *skill.Call, rel string, content []byte, mode fs.FileMode) (err error) {
	perm := cmp.Or(mode, 0o644)
	f, err := c.Root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write %s: %w", rel, cerr)
		}
	}()
	if _, err := io.Copy(f, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("write %s: %w", rel, err)
	}
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return fmt.Errorf("write %s: %w", rel, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", rel, err)
	}
	return c.Root.SyncDir(path.Dir(rel)) // the name may be new
}

// parseMode reads permission bits; "" is 0, which means as they are.
func parseMode(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits == 0 || bits > 0o777 {
		return 0, skill.BadInput("/mode", "%q is no permission in octal such as 0644", text)
	}
	return fs.FileMode(bits), nil
}
