// Package install puts spritekit into a folder, usually /skills: the binary itself, its second file, a link per skill that
// is named as the skill, and manifests/<skill>/skill.json. Install may be repeated and may replace a version that is in
// use: each file is written to a temporary name and renamed, the binary first, so that a link never dangles. Installed files
// are read-only and listed in manifests/installed.json. A file with one of our names that is not listed is foreign; Install
// then refuses before it writes anything.
package install

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The names of the two executables in the folder. All links lead to the binary; it runs the second file when a call
// needs it.
const (
	binary = "spritekit"
	extra  = protocol.Extra
)

// Kit lists the files of an install.
type Kit struct {
	Self      string            // path of the binary
	Extra     string            // path of its second file, "" where that is not there
	Manifests map[string][]byte // skill.json by skill name
}

// listExecutables are the programs of the kit: name in the folder and path, the binary last so that it finds the other.
func (k Kit) listExecutables() [][2]string {
	if k.Extra == "" {
		return [][2]string{{binary, k.Self}}
	}
	return [][2]string{{extra, k.Extra}, {binary, k.Self}}
}

// FindExtra returns the path of the second file of the binary self, "" where it is not there.
func FindExtra(self string) string {
	path := protocol.ExtraOf(self)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// ForeignError is returned by Install if foreign files are in the way; nothing was written.
type ForeignError struct{ Paths []string }

func (e *ForeignError) Error() string {
	return "files that no install made are in the way: " + strings.Join(e.Paths, ", ")
}

// Install copies the executables of the kit into dir, with a link and a manifest for each skill. With force it replaces
// files of others that have our names; never folders.
func Install(k Kit, dir string, force bool) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return &fs.PathError{Op: "install", Path: dir, Err: syscall.ENOTDIR}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("install: %w", err)
	}
	foreign, err := k.inTheWay(dir)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if force {
		foreign = slices.DeleteFunc(foreign, func(name string) bool { return !isFolder(filepath.Join(dir, name)) })
	}
	if len(foreign) > 0 {
		return &ForeignError{Paths: foreign}
	}
	if err := os.MkdirAll(filepath.Join(dir, "manifests"), 0o755); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := k.writeRecord(dir); err != nil { // before the first file, so that the files are ours even if the install is interrupted
		return fmt.Errorf("install: %w", err)
	}
	for _, x := range k.listExecutables() {
		if err := copyBinary(x[1], filepath.Join(dir, x[0])); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Manifests)) {
		if err := writeManifest(dir, name, k.Manifests[name]); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
		if err := makeLink(dir, name); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return durable.SyncDir(dir)
}

func isFolder(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// Verify lists the differences between dir and the result of Install, nil if there are none.
func Verify(k Kit, dir string) ([]string, error) {
	var differences []string
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for _, x := range k.listExecutables() {
		same, err := sameContent(x[1], filepath.Join(dir, x[0]))
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		if !same {
			differ("%s is missing or another version", x[0])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, extra)); k.Extra == "" && err != nil && slices.Contains(readRecord(dir).Files, extra) {
		differ("%s is missing", extra)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Manifests)) {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != binary {
			differ("%s is no link to %s", name, binary)
		}
		if !hasContent(manifestPath(dir, name), k.Manifests[name]) {
			differ("the manifest of %s is missing or another one", name)
		}
	}
	return differences, nil
}

func manifestPath(dir, name string) string {
	return filepath.Join(dir, "manifests", name, "skill.json")
}

// hasContent reports whether a file has this content. Nothing else is read: a FIFO would block, a huge file fill the memory.
func hasContent(name string, data []byte) bool {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) {
		return false
	}
	have, err := os.ReadFile(name)
	return err == nil && bytes.Equal(have, data)
}

func copyBinary(self, to string) error {
	if same, err := sameContent(self, to); err != nil {
		return err
	} else if same {
		return os.Chmod(to, 0o555)
	}
	src, err := os.Open(self)
	if err != nil {
		return err
	}
	defer src.Close()
	return replaceFile(to, src, 0o555)
}

func writeManifest(dir, name string, data []byte) error {
	to := manifestPath(dir, name)
	if hasContent(to, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return replaceFile(to, bytes.NewReader(data), 0o444)
}

// makeLink makes dir/name a relative link to the binary, so that the folder may be moved or mounted elsewhere.
func makeLink(dir, name string) error {
	to := filepath.Join(dir, name)
	if target, err := os.Readlink(to); err == nil && target == binary {
		return nil
	}
	tmp := to + ".tmp-link"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(binary, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// replaceFile writes a temporary file and renames it; a running binary keeps its old file.
func replaceFile(to string, src io.Reader, mode fs.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(to), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name()) // best effort: the first error is the one to tell
		}
	}()
	_, err = io.Copy(tmp, src)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), to); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}

// sameContent compares by hash. A missing b is different; a missing a is an error.
func sameContent(a, b string) (bool, error) {
	if info, err := os.Lstat(b); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	x, err := digestFile(a)
	if err != nil {
		return false, err
	}
	y, err := digestFile(b)
	if err != nil {
		return false, err
	}
	return x == y, nil
}

func digestFile(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, fmt.Errorf("hash %s: %w", name, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
