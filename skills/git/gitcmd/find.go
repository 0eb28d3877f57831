package gitcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Find finds git on a PATH list and checks that it is 2.30 or newer; otherwise the error is unsupported (8).
func Find(ctx context.Context, reaper *proc.Reaper, path string) (*Git, error) {
	g := &Git{reaper: reaper, path: path}
	bin, err := proc.LookPath("git", path)
	if err != nil {
		return nil, fault.Unsupported("unsupported", "this sprite has no git").
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	g.bin = bin
	if isRecent(bin) {
		return g, nil
	}
	out, err := g.Run(ctx, Command{Args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if v := parseVersion(string(out)); slices.Compare(v, []int{2, 30}) < 0 {
		return nil, fault.Unsupported("unsupported", "this sprite's git is too old: %s", strings.TrimSpace(string(out))).
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	return g, nil
}

// isRecent reports whether an installation is 2.30 or newer without starting it: that version added for-each-repo,
// which is installed with git's other programs. Where it is not found, the caller must ask git.
func isRecent(bin string) bool {
	real, err := filepath.EvalSymlinks(bin)
	if err != nil || filepath.Base(filepath.Dir(real)) != "bin" {
		return false
	}
	file, err := os.Stat(real)
	if err != nil {
		return false
	}
	prefix := filepath.Dir(filepath.Dir(real))
	for _, lib := range []string{"lib", "libexec"} {
		// The folder belongs to this binary only if its git is the same file or a copy.
		own, err := os.Stat(filepath.Join(prefix, lib, "git-core", "git"))
		if err != nil || own.Size() != file.Size() || !own.ModTime().Equal(file.ModTime()) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(prefix, lib, "git-core", "git-for-each-repo")); err == nil {
			return true
		}
	}
	return false
}

// parseVersion finds major and minor in the output of git version: "git version 2.39.5 …".
func parseVersion(text string) []int {
	for word := range strings.FieldsSeq(text) {
		var major, minor int
		if n, _ := fmt.Sscanf(word, "%d.%d", &major, &minor); n == 2 {
			return []int{major, minor}
		}
	}
	return nil
}
