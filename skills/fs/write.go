package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// absent is the expect_sha256 of a file that must not exist yet.
const absent = "absent"

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

// Write is fs.write.
func Write(ctx context.Context, c *skill.Call) (skill.Result, error) {
	var in writeInput
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	content, err := decode(in.Content, in.Encoding)
	if err != nil {
		return skill.Result{}, err
	}
	mode, err := parseMode(in.Mode)
	if err != nil {
		return skill.Result{}, err
	}
	rel, err := c.Root.Rel(in.Path)
	if err != nil {
		return skill.Result{}, err
	}
	if c.Root.Reserved(rel) {
		return skill.Result{}, skill.Unsafe("reserved_path", "%s belongs to the runtime", in.Path).
			WithHint("write anywhere in the workspace but below %s", protocol.Dir)
	}
	created, err := in.expect(ctx, c, rel)
	if err != nil {
		return skill.Result{}, err
	}
	if in.CreateDirs == nil || *in.CreateDirs {
		if err := c.Root.MkdirAll(path.Dir(rel)); err != nil {
			return skill.Result{}, err
		}
	}
	if in.Atomic == nil || *in.Atomic {
		err = c.Root.WriteFile(rel, content, mode)
	} else {
		err = inPlace(c, rel, content, mode)
	}
	if err != nil {
		return skill.Result{}, err
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return skill.Result{}, err
	}
	sum := sha256.Sum256(content)
	data := writeData{Path: rel, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), Created: created, Mode: octal(info.Mode())}
	metadata, err := json.Marshal(map[string]any{"sha256": data.SHA256, "size": data.Size})
	if err != nil {
		return skill.Result{}, fmt.Errorf("describe %s: %w", rel, err)
	}
	return skill.Result{Data: data}, c.Emit(protocol.Artifact{Kind: "file", Ref: rel, Metadata: metadata})
}

// expect checks the precondition and reports whether the file is new.
func (in *writeInput) expect(ctx context.Context, c *skill.Call, rel string) (created bool, err error) {
	info, err := c.Root.Stat(rel)
	created = errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !created:
		return false, err
	case err == nil && info.IsDir():
		return false, isDirectory(rel)
	case in.Expect == "":
		return created, nil
	}
	found := absent
	if !created {
		if found, err = digest(ctx, c, rel); err != nil {
			return false, err
		}
	}
	if found != in.Expect {
		return false, skill.Failed("changed", "%s is not what was expected: sha256 %s, want %s", rel, found, in.Expect).
			WithHint("read the file again and decide anew").
			WithDetails(map[string]any{"sha256": found, "expect_sha256": in.Expect})
	}
	return created, nil
}

func digest(ctx context.Context, c *skill.Call, rel string) (string, error) {
	f, err := c.Root.Open(rel)
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
