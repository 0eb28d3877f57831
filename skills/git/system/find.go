package system

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
func Find(ctx context.Context, reaper *proc.Reaper, path string) (*Engine, error) {
	s := &Engine{reaper: reaper, path: path}
	bin, err := proc.LookPath("git", path)
	if err != nil {
		return nil, fault.Unsupported("unsupported", "this sprite has no git").
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	s.bin = bin
	if isRecent(bin) {
		return s, nil
	}
	out, err := s.run(ctx, command{args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if v := version(string(out)); slices.Compare(v, []int{2, 30}) < 0 {
		return nil, fault.Unsupported("unsupported", "this sprite's git is too old: %s", strings.TrimSpace(string(out))).
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	return s, nil
}

// isRecent reports whether an installation is 2.30 or newer without starting it: that version brought for-each-repo,
// which lies with git's other programs. Where it does not, git is asked.
func isRecent(bin string) bool {
	real, err := filepath.EvalSymlinks(bin)
	if err != nil || filepath.Base(filepath.Dir(real)) != "bin" {
		return false
	}
	it, err := os.Stat(real)
	if err != nil {
		return false
	}
	prefix := filepath.Dir(filepath.Dir(real))
	for _, lib := range []string{"lib", "libexec"} {
		// The folder is this binary's own only if its git is the same: that file, or its copy.
		own, err := os.Stat(filepath.Join(prefix, lib, "git-core", "git"))
		if err != nil || own.Size() != it.Size() || !own.ModTime().Equal(it.ModTime()) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(prefix, lib, "git-core", "git-for-each-repo")); err == nil {
			return true
		}
	}
	return false
}

// version finds major and minor in what git version says: "git version 2.39.5 …".
func version(text string) []int {
	for word := range strings.FieldsSeq(text) {
		var major, minor int
		if n, _ := fmt.Sscanf(word, "%d.%d", &major, &minor); n == 2 {
			return []int{major, minor}
		}
	}
	return nil
}
