package leader

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

	"github.com/spritekit/lattice/spritekit/fault"
)

// FindSpritekit looks for the in-sprite binary: as told, beside lattice (self), on PATH.
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
	return "", fault.NotFound("spritekit_missing", "the spritekit binary was not found beside lattice or on PATH; sprites need it for their skills").WithHint("make build, or --spritekit PATH")
}

// InstallSkills makes the /skills directory of a spritekit below home, once per content, and returns its path.
func InstallSkills(home Home, spritekit string) (string, error) {
	f, err := os.Open(spritekit)
	if err != nil {
		return "", fmt.Errorf("read spritekit: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read spritekit: %w", err)
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
