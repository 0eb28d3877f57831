package skillset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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

// hashFile adds the content of a file to sum.
func hashFile(sum hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read spritekit: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("read spritekit: %w", err)
	}
	return nil
}

// InstallSkills makes the /skills directory of a spritekit, and of its second file, below home, once per content, and
// returns its path.
func InstallSkills(home home.Home, spritekit string) (string, error) {
	sum := sha256.New()
	err := hashFile(sum, spritekit)
	if extra := FindExtra(spritekit); err == nil && extra != "" {
		err = hashFile(sum, extra)
	}
	if err != nil {
		return "", err
	}
	dir := home.Skills(hex.EncodeToString(sum.Sum(nil)[:16]))
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
