package fs

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/spritekit/lattice/skills/fs/walk"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultHashed = 100_000
	maxHashed     = 1_000_000
)

// Algorithms of fs.hash.
const (
	algorithmSHA256 = "sha256"
	algorithmGit    = "git"
)

type hashInput struct {
	Path       string   `json:"path"`
	Algorithm  string   `json:"algorithm"`
	Exclude    []string `json:"exclude"`
	Ignored    bool     `json:"ignored"`
	Entries    bool     `json:"entries"`
	MaxEntries int      `json:"max_entries"`
}

type hashData struct {
	Path      string      `json:"path"`
	Type      string      `json:"type"`
	Algorithm string      `json:"algorithm"`
	Digest    string      `json:"digest"`
	Files     int         `json:"files"`
	Size      int64       `json:"size"`
	Entries   []hashEntry `json:"entries,omitempty"`
}

type hashEntry struct {
	Path   string `json:"path"` // relative to the workspace
	Mode   string `json:"mode"` // as git writes it: 100644, 100755 or 120000
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

// hashFiles does the work of fs.hash. The digest of a folder is the sha256 over "MODE DIGEST PATH" and a NUL for each file in it, sorted by
// path, which is relative to the folder; empty folders do not count, as in git.
func hashFiles(ctx context.Context, c *skill.Call, in hashInput) (*hashData, error) {
	in.Algorithm, in.MaxEntries = cmp.Or(in.Algorithm, algorithmSHA256), cmp.Or(in.MaxEntries, defaultHashed)
	if in.Algorithm != algorithmSHA256 && in.Algorithm != algorithmGit {
		return nil, skill.BadInput("/algorithm", "%q is none of sha256, git", in.Algorithm)
	}
	if in.MaxEntries < 0 || in.MaxEntries > maxHashed {
		return nil, skill.BadInput("/max_entries", "is not between 1 and %d", maxHashed)
	}
	exclude, err := newGlobs("/exclude", in.Exclude...)
	if err != nil {
		return nil, err
	}
	rel, err := c.Root.Rel(cmp.Or(in.Path, "."))
	if err != nil {
		return nil, err
	}
	info, err := c.Root.Stat(rel)
	if err != nil {
		return nil, explainMissing(c, rel, err)
	}
	data := hashData{Path: rel, Type: typeName(info.Mode()), Algorithm: in.Algorithm}
	if info.IsDir() {
		err = data.hashTree(ctx, c, &in, exclude)
	} else {
		err = data.hashFile(c, info)
	}
	return &data, err
}

func (d *hashData) hashFile(c *skill.Call, info fs.FileInfo) error {
	f, err := openFile(c, d.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	d.Files, d.Size = 1, info.Size()
	d.Digest, d.Size, err = hashOf(d.Algorithm, f, d.Size)
	if err != nil {
		return fmt.Errorf("read %s: %w", d.Path, err)
	}
	return nil
}

func (d *hashData) hashTree(ctx context.Context, c *skill.Call, in *hashInput, exclude globs) error {
	// One too many shows that there are too many.
	found := first[hashEntry]{limit: in.MaxEntries + 1, path: func(e hashEntry) string { return e.Path }, size: func(hashEntry) int { return 1 }}
	skipped, err := walk.Tree(ctx, c.Root, d.Path, walk.Options{
		Hidden: true, Ignored: in.Ignored,
		Enter: func(dir string) bool { return !exclude.matchesBase(relativeTo(d.Path, dir)) },
	}, func(_ int, e *walk.Entry) error {
		if e.Type.IsDir() || exclude.matchesBase(relativeTo(d.Path, e.Path)) {
			return nil
		}
		entry, err := hashEntryOf(c, e, in.Algorithm)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since it was listed
		}
		if err != nil {
			return err
		}
		found.add(entry)
		return nil
	})
	if err != nil {
		return err
	}
	warnSkipped(c, skipped)
	entries, _ := found.sorted()
	if len(entries) > in.MaxEntries {
		return tooMany(in.MaxEntries)
	}
	sum := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(sum, "%s %s %s\x00", e.Mode, e.Digest, relativeTo(d.Path, e.Path))
		d.Size += e.Size
	}
	d.Digest, d.Files = hex.EncodeToString(sum.Sum(nil)), len(entries)
	if in.Entries {
		d.Entries = entries
	}
	return nil
}

func hashEntryOf(c *skill.Call, e *walk.Entry, algorithm string) (entry hashEntry, err error) {
	entry.Path = e.Path
	if e.Type&fs.ModeSymlink != 0 {
		target, err := c.Root.Readlink(e.Path)
		if err != nil {
			return entry, err
		}
		entry.Mode = "120000"
		entry.Digest, entry.Size, err = hashOf(algorithm, strings.NewReader(target), int64(len(target)))
		return entry, err
	}
	f, err := e.Open()
	if errors.Is(err, walk.ErrSpecial) {
		return entry, specialFile(e.Path, e.Type)
	}
	if err != nil {
		return entry, err
	}
	defer f.Close()
	info, err := e.Lstat()
	if err != nil {
		return entry, err
	}
	entry.Mode = "100644"
	if info.Mode()&0o100 != 0 {
		entry.Mode = "100755"
	}
	entry.Digest, entry.Size, err = hashOf(algorithm, f, f.Size())
	return entry, err
}

// hashOf digests what r holds. git counts the bytes first, so a file that changes its size during the call is refused.
func hashOf(algorithm string, r io.Reader, size int64) (digest string, n int64, err error) {
	var h hash.Hash
	if algorithm == algorithmGit {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
	} else {
		h = sha256.New()
	}
	if n, err = io.Copy(h, r); err != nil {
		return "", n, err
	}
	if algorithm == algorithmGit && n != size {
		return "", n, fault.Failed("changed", "a file changed its size while it was read").WithHint("wait until nothing writes to it, and try again")
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}
