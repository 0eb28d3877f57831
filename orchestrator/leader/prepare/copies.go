package prepare

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// CheckCopies refuses files and folders of this machine that cannot be copied into a workspace: two of one name, control files
// of lattice, and links, which may lead out of the folder that a person named.
func CheckCopies(paths []string) error {
	known := map[string]bool{}
	for _, p := range paths {
		name := filepath.Base(p)
		if known[name] || name == protocol.Dir {
			return refuseCopy("copy_refused", "rename one", "%s cannot be copied into the workspace: the name %s is taken", p, name)
		}
		known[name] = true
		if err := walkCopy(p, func(string, fs.FileInfo) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// sendCopies copies the files and folders of a run into the workspace of its sprite. It is idempotent.
func (p *Preparer) sendCopies(ctx context.Context, sprite string, paths []string) error {
	for _, from := range paths {
		err := walkCopy(from, func(rel string, st fs.FileInfo) error {
			f, err := os.Open(filepath.Join(from, rel))
			if err != nil {
				return err
			}
			defer f.Close()
			to := path.Join("/workspace", filepath.Base(from), filepath.ToSlash(rel))
			return p.Client.WriteFile(ctx, sprite, to, f, uint32(st.Mode().Perm()))
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
	}
	return nil
}

// walkCopy calls do for each file of a copy, with its path relative to from.
func walkCopy(from string, do func(rel string, st fs.FileInfo) error) error {
	return filepath.WalkDir(from, func(at string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return refuseCopy("copy_not_found", "--copy takes a file or folder of this machine", "there is no %s", at)
		}
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return refuseCopy("copy_refused", "name files and folders without links", "%s is neither a file nor a folder", at)
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		return do(rel, st)
	})
}

func refuseCopy(code, hint, format string, a ...any) error {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, a...), Hint: hint}}
}
