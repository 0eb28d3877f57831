package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/skill"
)

const maxExclude = 1 << 20 // of a repository's info/exclude

// files are the files that a call writes for the agent: those in the home of its session stay, the others are removed when the
// call ends.
type files struct {
	call *skill.Call
	home string // the session's HOME relative to the workspace, "" if it is the sprite's
	undo []func() error
}

// writeHome writes a file into the session's private home.
func (f *files) writeHome(name string, data []byte) error {
	name = f.home + "/" + name
	if err := f.call.Root.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	return f.call.Root.WriteFile(name, data, 0o600)
}

// writeScratch writes a file that is removed when the call ends.
func (f *files) writeScratch(suffix string, data []byte) (string, error) {
	name := waitingDir + "/" + f.call.ID + suffix
	if err := f.call.Root.MkdirAll(waitingDir); err != nil {
		return "", err
	}
	f.undo = append(f.undo, func() error { return f.call.Root.Remove(name) })
	return f.call.Root.Own(name), f.call.Root.WriteFile(name, data, 0o600)
}

// placeText writes text to a file of the home, or of the repository in dir. It returns false if the file exists.
func (f *files) placeText(dir, where, text string) (bool, error) {
	if name, ok := strings.CutPrefix(where, "{home}/"); ok {
		return true, f.writeHome(name, []byte(text+"\n"))
	}
	root := f.call.Root
	rel, err := filepath.Rel(root.Dir(), dir)
	if err != nil {
		return false, err
	}
	name := filepath.Join(rel, strings.TrimPrefix(where, "{cwd}/"))
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return false, err // an existing file is not changed
	}
	if err := f.excludeFromGit(name); err != nil {
		return false, err
	}
	f.undo = append(f.undo, func() error { return root.Remove(name) })
	return true, root.WriteFile(name, []byte(text+"\n"), 0o644)
}

// excludeFromGit hides a file from git during the call if it is in a repository.
func (f *files) excludeFromGit(name string) error {
	root := f.call.Root
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if info, err := root.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			return f.excludeIn(filepath.Join(dir, ".git", "info"), "/"+filepath.ToSlash(rel))
		}
		if dir == "." {
			return nil
		}
	}
}

// excludeIn adds a pattern to info/exclude of a repository until the call ends.
func (f *files) excludeIn(info, pattern string) error {
	root, file := f.call.Root, filepath.Join(info, "exclude")
	before, err := root.ReadFile(file, maxExclude)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return err
	}
	if err := root.MkdirAll(info); err != nil {
		return err
	}
	after := bytes.Clone(before)
	if len(after) > 0 && !bytes.HasSuffix(after, []byte("\n")) {
		after = append(after, '\n')
	}
	after = append(after, pattern+"\n"...)
	f.undo = append(f.undo, func() error {
		now, err := root.ReadFile(file, maxExclude)
		switch {
		case err != nil:
			return err
		case bytes.Equal(now, after) && absent:
			return root.Remove(file)
		case bytes.Equal(now, after):
			return root.WriteFile(file, before, 0o644)
		}
		return root.WriteFile(file, removeLine(now, pattern), 0o644) // another program has changed the file, too
	})
	return root.WriteFile(file, after, 0o644)
}

// removeLine returns text without the last of its lines that equal line.
func removeLine(text []byte, line string) []byte {
	lines := slices.Collect(bytes.Lines(text))
	for i, one := range slices.Backward(lines) {
		if string(bytes.TrimSuffix(one, []byte("\n"))) == line {
			return bytes.Join(slices.Delete(lines, i, i+1), nil)
		}
	}
	return text
}

// undoAll removes the temporary files of the call. A failure is a warning, because the work of the agent is done.
func (f *files) undoAll() {
	for _, undo := range slices.Backward(f.undo) {
		if err := undo(); err != nil {
			f.call.Warn("not_cleaned_up", err.Error())
		}
	}
	f.undo = nil
}
