package guard

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// RefuseWaiting refuses a FIFO or a device among the files that every git opens first, because git would block. Verbs that
// write check all files with [CheckFiles].
func RefuseWaiting(at engine.Location) error {
	for _, name := range []string{
		filepath.Join(at.GitDir, "HEAD"), filepath.Join(at.GitDir, "index"), filepath.Join(at.CommonDir, "packed-refs"),
		filepath.Join(at.Dir, ".gitignore"), filepath.Join(at.Dir, ".gitattributes"),
	} {
		if info, err := os.Stat(name); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
			return refuseFile(at, name, "is not a regular file")
		}
	}
	return nil
}

// CheckFiles refuses a repository whose own files are links that lead out of the workspace or into the runtime's folder. A
// commit follows them and would write its message, its index or a reflog to the targets of COMMIT_EDITMSG, index or
// logs/HEAD. A FIFO would block git. Verbs that only read may follow links, as cat does. It returns the locks of git that it finds.
func CheckFiles(at engine.Location) (locks []Lock, err error) {
	dirs := []string{at.GitDir}
	if at.CommonDir != at.GitDir {
		dirs = append(dirs, at.CommonDir)
	}
	own := at.Root.Own(protocol.Dir) + string(filepath.Separator)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil // git removes lock files concurrently
			case err != nil:
				return err
			case d.IsDir() && isSkipped(dir, name):
				return filepath.SkipDir
			case d.Type()&(fs.ModeNamedPipe|fs.ModeDevice) != 0:
				return refuseFile(at, name, "is not a regular file")
			case strings.HasSuffix(name, ".lock") && d.Type().IsRegular(): // no ref has such a name
				if info, err := d.Info(); err == nil {
					locks = append(locks, Lock{name, info})
				}
				return nil
			case d.Type() != fs.ModeSymlink:
				return nil
			}
			if real, ok := Inside(at.Root.Dir(), name); ok && !strings.HasPrefix(real+string(filepath.Separator), own) {
				return nil
			}
			return refuseFile(at, name, "is a link that leads out of the workspace, to the runtime's own files or nowhere")
		})
		if err != nil {
			return nil, err
		}
	}
	return locks, nil
}

func refuseFile(at engine.Location, name, problem string) error {
	rel, err := filepath.Rel(at.Root.Dir(), name)
	if err != nil {
		return err
	}
	return fault.Unsafe("unsafe_path", "%s %s", rel, problem).
		WithHint("a repository's own files are plain files; remove it, or clone the repository again")
}

// isSkipped reports whether a folder of a repository needs no check: hooks, because none is run; the folders of submodules
// and other work trees; and the folders of loose objects, whose names git chooses.
func isSkipped(gitDir, name string) bool {
	rel, err := filepath.Rel(gitDir, name)
	if err != nil {
		return false
	}
	return rel == "hooks" || rel == "modules" || rel == "worktrees" || filepath.Dir(rel) == "objects" && len(filepath.Base(rel)) == 2
}
