package fs

import (
	"bytes"
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
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Mode       string `json:"mode"`
	CreateDirs *bool  `json:"create_dirs"`
	Expect     string `json:"expect_sha256"`
	Atomic     *bool  `json:"atomic"`
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
	data, err := decode(in.Content, in.Encoding)
	if err != nil {
		return nil, err
	}
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	rel, err := content(c, in.Path)
	if err != nil {
		return nil, err
	}
	old, err := existing(ctx, c, rel, in.Expect)
	if err != nil {
		return nil, err
	}
	if err := parents(c, rel, in.CreateDirs); err != nil {
		return nil, err
	}
	if in.Atomic == nil || *in.Atomic {
		err = c.Root.WriteFile(rel, data, mode)
	} else {
		err = inPlace(c, rel, data, mode)
	}
	if err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return nil, err
	}
	sum := sum(data)
	return &writeData{
		Path: rel, Size: int64(len(data)), SHA256: sum, Created: old == nil, Mode: octal(info.Mode()),
	}, emitFile(c, rel, sum, int64(len(data)))
}

func sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func digest(ctx context.Context, c *skill.Call, rel string) (string, error) {
	f, err := open(c, rel)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p := picker{buffer: 64 << 10}
	if err := p.bytes(ctx, f, 0, new(int64)); err != nil {
		return "", fmt.Errorf("read %s: %w", rel, err)
	}
	return hex.EncodeToString(p.sum.Sum(nil)), nil
}

// inPlace overwrites a file without replacing it.
func inPlace(c *skill.Call, rel string, content []byte, mode fs.FileMode) (err error) {
	perm := mode
	if perm == 0 {
		perm = 0o644
	}
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
