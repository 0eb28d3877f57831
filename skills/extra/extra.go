// Package extra runs spritekit-extra, the second file next to spritekit, which has large and rarely needed dependencies.
// Begin with File. Each command of the second file defines its own protocol on stdin and stdout.
package extra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxStderr = 16 << 10
	grace     = 2 * time.Second
)

// File is the second file, whose processes Reaper starts.
type File struct {
	Reaper *proc.Reaper
	Path   string
}

// Beside returns the second file in the folder of this executable.
func Beside(r *proc.Reaper) File {
	self, err := os.Executable()
	if err != nil {
		return File{Reaper: r} // which says that the file is missing
	}
	return File{r, filepath.Join(filepath.Dir(self), protocol.Extra)}
}

// Run runs one command, without arguments and environment. need says in a person's words who needs it.
func (f File) Run(ctx context.Context, need, command string, stdin []byte, stdout io.Writer) error {
	if info, err := os.Stat(f.Path); f.Path == "" || errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return Missing(need)
	}
	stderr := &proc.Tail{Limit: maxStderr}
	exit, err := f.Reaper.Run(ctx, proc.Spec{
		Argv: []string{f.Path, command}, Dir: "/", Env: []string{}, Stdin: string(stdin), Stdout: stdout, Stderr: stderr, Grace: grace,
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", protocol.Extra, command, context.Cause(ctx))
	case exit.Code != 0:
		return fmt.Errorf("%s %s ended with code %d: %s", protocol.Extra, command, exit.Code, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// Missing says that the second file is not there, and that something needs it (8).
func Missing(need string) *skill.Error {
	return fault.Unsupported("extra_missing", "%s is not beside spritekit, and %s needs it", protocol.Extra, need).
		WithHint("install both files: spritekit install /skills, where %s lies beside spritekit%s", protocol.Extra, orGit(need))
}

// orGit is the other way out of a call that needs git.
func orGit(need string) string {
	if strings.HasPrefix(need, "git ") {
		return "; or use an image that has git"
	}
	return ""
}
