package fs

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// resolveContent judges the path of a file whose content a verb is to change; symlinks in it are followed. It returns the path
// relative to the root.
func resolveContent(c *skill.Call, name string) (string, error) {
	rel, err := c.Root.Rel(name)
	if err != nil {
		return "", err
	}
	real, err := c.Root.Real(rel)
	if err != nil {
		return "", err
	}
	return rel, guardGit(rel, real)
}

// resolveEntry judges the path of something that a verb is to make, move or remove; a symlink in the last place is meant itself.
func resolveEntry(c *skill.Call, name, pointer string) (string, error) {
	rel, err := c.Root.Rel(name)
	if err != nil {
		return "", err
	}
	if rel == "." {
		return "", skill.BadInput(pointer, "is the workspace itself").WithHint("name something in it")
	}
	real, err := c.Root.Real(path.Dir(rel))
	if err != nil {
		return "", err
	}
	return rel, guardGit(rel, path.Join(real, path.Base(rel)))
}

// guardGit keeps skills from changing private files of the runtime or git: below .lattice, and below .git, where a
// planted hook or setting would run as the next user of git. It checks the given name, and the same name with its
// symlinks resolved. A process that swaps a symlink at the same moment could write there itself; it is
// os.Root that confines, at every step.
func guardGit(rel, real string) error {
	if err := judgeName(rel); err != nil {
		return err
	}
	return judgeName(real)
}

func judgeName(rel string) error {
	for i, part := range strings.Split(rel, "/") {
		switch {
		case i == 0 && looksLike(part, protocol.Dir):
			return fault.Unsafe("reserved_path", "%s belongs to the runtime%s", rel, checkAlias(part, protocol.Dir)).
				WithHint("write anywhere in the workspace but below %s", protocol.Dir)
		case looksLike(part, ".git") || looksLike(part, "git~1"):
			return fault.Unsafe("git_internals", "%s belongs to git%s: a hook or setting there would run as whoever uses git next", rel, checkAlias(part, ".git")).
				WithHint("the git skills change a repository; reading it is allowed")
		}
	}
	return nil
}

func checkAlias(name, means string) string {
	if name == means {
		return ""
	}
	return fmt.Sprintf(", because some file systems take %q for %s", name, means)
}

// looksLike reports whether some file system takes name for want: those that ignore case, letters without width
// (HFS+, as git guards against them, too), dots and spaces at the end, or a stream named after a colon (NTFS).
func looksLike(name, want string) bool {
	if len(name) < len(want) {
		return false
	}
	name, _, _ = strings.Cut(name, ":") // NTFS: a stream of the file
	name = strings.TrimRight(name, ". ")
	name = strings.Map(func(r rune) rune {
		switch {
		case r == 0xAD || 0x200B <= r && r <= 0x200F || 0x202A <= r && r <= 0x202E || 0x2060 <= r && r <= 0x206F || r == 0xFEFF:
			return -1
		case r == 'ı' || r == 'İ':
			return 'i'
		}
		return r
	}, name)
	return strings.EqualFold(name, want)
}

// openFile opens a file for reading. It never opens any other kind of file: a FIFO would wake the process that
// waits at its other end.
func openFile(c *skill.Call, rel string) (*os.File, error) {
	info, err := c.Root.Stat(rel)
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	if err := checkRegular(rel, info); err != nil {
		return nil, err
	}
	f, err := c.Root.Open(rel)
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	return f, nil
}

// checkRegular refuses a file that is not regular.
func checkRegular(rel string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return isDirectory(rel)
	}
	return specialFile(rel, info.Mode())
}

func specialFile(rel string, mode fs.FileMode) error {
	return fault.Unsafe("unsafe_path", "%s is a %s, which is never opened", rel, typeName(mode)).
		WithHint("paths must stay inside the workspace and name regular files")
}

// typeName returns the name of a kind of file in listings.
func typeName(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// absent is the expect_sha256 of a file that must not exist yet.
const absent = "absent"

// checkExpect judges the input expect_sha256.
func checkExpect(expect string) error {
	if raw, err := hex.DecodeString(expect); expect != "" && expect != absent && (err != nil || len(raw) != 32 || expect != strings.ToLower(expect)) {
		return skill.BadInput("/expect_sha256", "%q is neither 64 hexadecimal digits in lower case nor %q", expect, absent)
	}
	return nil
}

// statExpected describes the file at rel, nil when there is none, and refuses it when it is no regular file or not the one
// that was expected.
func statExpected(ctx context.Context, c *skill.Call, rel, expect string) (fs.FileInfo, error) {
	if err := checkExpect(expect); err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		if expect != "" && expect != absent {
			return nil, newChangedError(rel, absent, expect)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := checkRegular(rel, info); err != nil {
		return nil, err
	}
	if expect == "" {
		return info, nil
	}
	found, err := digestFile(ctx, c, rel)
	if err == nil && found != expect {
		err = newChangedError(rel, found, expect)
	}
	return info, err
}

func newChangedError(rel, found, expect string) error {
	return fault.Failed("changed", "%s is not what was expected: sha256 %s, want %s", rel, found, expect).
		WithHint("read the file again, then decide").
		WithDetails(map[string]any{"sha256": found, "expect_sha256": expect})
}

// makeParents makes the folders that rel needs, unless create is false.
func makeParents(c *skill.Call, rel string, create *bool) error {
	dir := path.Dir(rel)
	if create == nil || *create {
		return c.Root.MkdirAll(dir)
	}
	_, err := c.Root.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("not_found", "the folder %s is not there", dir).WithHint("make it with fs.mkdir, or let this call make it")
	}
	return err
}

// emitFile tells that a file was written.
func emitFile(c *skill.Call, rel, sum string, size int64) error {
	metadata, err := json.Marshal(map[string]any{"sha256": sum, "size": size})
	if err != nil {
		return fmt.Errorf("describe %s: %w", rel, err)
	}
	return c.Emit(protocol.Artifact{Kind: "file", Ref: rel, Metadata: metadata})
}
