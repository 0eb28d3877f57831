package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// outDir is where a sprite leaves files for the orchestrator.
const outDir = "/workspace/" + protocol.Dir + "/out/"

// bundles keeps verified copies of sprites' bundles as DIR/<sha256>.bundle. A file under its final name is complete
// and has that digest.
type bundles struct {
	files Files
	dir   string
	limit int64 // bytes
}

func (b bundles) bundlePath(digest string) string { return filepath.Join(b.dir, digest+".bundle") }

// fetchBundle copies a file out of a sprite, unless its content is already there, and returns the copy's path.
func (b bundles) fetchBundle(ctx context.Context, sprite, name, digest string) (string, error) {
	if err := checkOutPath(name); err != nil {
		return "", err
	}
	if err := b.verifyCopy(digest); err == nil {
		return b.bundlePath(digest), nil
	}
	r, err := b.files.ReadFrom(ctx, sprite, name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", newRefusal("bundle_missing", "write the bundle before asking for the push", "the sprite has no file %s", name)
	}
	if err != nil {
		return "", fmt.Errorf("read %s from sprite %s: %w", name, sprite, err)
	}
	defer r.Close()
	return b.storeBundle(r, digest)
}

// storeBundle writes r to a temporary file, and renames it when the digest matches and the file is synced.
func (b bundles) storeBundle(r io.Reader, digest string) (string, error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", fmt.Errorf("keep the bundle: %w", err)
	}
	f, err := os.CreateTemp(b.dir, "incoming-*")
	if err != nil {
		return "", fmt.Errorf("keep the bundle: %w", err)
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, b.limit+1))
	if err != nil {
		return "", fmt.Errorf("copy the bundle: %w", err)
	}
	if n > b.limit {
		return "", newRefusal("limit_exceeded", "push in smaller steps", "the bundle has more than %d bytes", b.limit)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return "", newRefusal("digest_mismatch", "ask for the push again", "the bundle's sha256 is %s, not %s", got, digest)
	}
	if err := f.Sync(); err != nil {
		return "", fmt.Errorf("keep the bundle: %w", err)
	}
	if err := os.Rename(f.Name(), b.bundlePath(digest)); err != nil {
		return "", fmt.Errorf("keep the bundle: %w", err)
	}
	return b.bundlePath(digest), durable.SyncDir(b.dir)
}

// verifyCopy reads the stored copy again. It refuses a copy that is gone or has another digest.
func (b bundles) verifyCopy(digest string) error {
	f, err := os.Open(b.bundlePath(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return newRefusal("bundle_missing", "ask for the action again", "the verified copy of the bundle %s is gone", digest)
	}
	if err != nil {
		return fmt.Errorf("open the stored bundle: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read the stored bundle: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return newRefusal("binding_changed", "ask for the action again", "the stored bundle %s now has the digest %s", digest, got)
	}
	return nil
}

// checkOutPath checks that a path is clean and below outDir. The sprite resolves it inside its own file system, so a symbolic
// link there reaches nothing that the sprite could not send anyway.
func checkOutPath(name string) error {
	below, ok := strings.CutPrefix(name, outDir)
	if !ok || below == "" || path.Clean(name) != name || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }) || len(name) > 1024 {
		return newRefusal("bad_bundle_path", "write it below "+outDir, "the bundle's path %q is not a plain path below %s", name, outDir)
	}
	return nil
}

// newRefusal returns a final error with a code for machines, a message for people and a hint.
func newRefusal(code, hint, format string, args ...any) *lattice.Refusal {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}}
}
