package skillset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// FindSpritekit finds the in-sprite binary: at told if set, else next to lattice (self) or on PATH.
func FindSpritekit(told, self, path string) (string, error) {
	candidates := []string{filepath.Join(filepath.Dir(self), "spritekit")}
	if told != "" {
		candidates = []string{told}
	} else {
		for _, dir := range filepath.SplitList(path) {
			if filepath.IsAbs(dir) {
				candidates = append(candidates, filepath.Join(dir, "spritekit"))
			}
		}
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return filepath.Abs(c)
		}
	}
	return "", fault.NotFound("spritekit_missing", "the spritekit binary was not found next to lattice or on PATH; sprites need it for their skills").WithHint("make build, or --spritekit PATH")
}

// FindExtra returns the path of the second file of a spritekit, "" if it does not exist.
func FindExtra(spritekit string) string {
	path := protocol.ExtraOf(spritekit)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// hashFiles returns the SHA-256 digest, in hexadecimal digits, of the content of files, one after the other.
func hashFiles(paths ...string) (string, error) {
	sum := sha256.New()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read spritekit: %w", err)
		}
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("read spritekit: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// settled is how old the last change of a file must be so that each later one gets another time, whatever the file system's
// clock.
const settled = 2 * time.Second

// identifyFiles returns a name for the files as they are, without reading them: it is another one after any change of them. It
// returns "" if they changed within the last moments.
func identifyFiles(paths []string, now time.Time) string {
	sum := sha256.New()
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return ""
		}
		if changed := time.Unix(st.Ctim.Unix()); now.Sub(changed) < settled {
			return ""
		}
		fmt.Fprintln(sum, path, st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// digestFiles returns the digest of the files. A symbolic link below home keeps it for the next process, since to read them
// takes longer than all else that a short command does.
func digestFiles(home home.Home, paths []string, now time.Time) (string, error) {
	id := identifyFiles(paths, now)
	if id == "" {
		return hashFiles(paths...)
	}
	link := home.Skills(".of-" + id)
	if known, err := os.Readlink(link); err == nil {
		return filepath.Base(known), nil
	}
	sum, err := hashFiles(paths...)
	if err == nil && os.MkdirAll(filepath.Dir(link), 0o755) == nil {
		_ = os.Symlink(sum, link) // without it the files are read again
	}
	return sum, err
}

// InstallSkills makes the /skills directory of a spritekit, and of its second file, below home, once per content, and
// returns its path.
func InstallSkills(home home.Home, spritekit string) (string, error) {
	paths := []string{spritekit}
	if extra := FindExtra(spritekit); extra != "" {
		paths = append(paths, extra)
	}
	sum, err := digestFiles(home, paths, time.Now())
	if err != nil {
		return "", err
	}
	dir := home.Skills(sum[:32])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make skills directory: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return "", fmt.Errorf("make skills directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, spritekit, "install", tmp).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("install skills with %s: %w: %s", spritekit, err, strings.TrimSpace(string(out)))
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("install skills: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("install skills: %w", err)
	}
	return dir, nil
}
