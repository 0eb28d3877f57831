package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Write makes dir hold the files, each replaced at once, and removes files of an earlier export from their folders.
// Nothing else in dir is touched; a link that leads out of it is an error.
func Write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("export skills: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("export skills: %w", err)
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if hasContent(root, name, files[name]) {
			continue
		}
		if err := replaceFile(root, name, files[name]); err != nil {
			return fmt.Errorf("export skills: write %s: %w", filepath.Join(dir, name), err)
		}
	}
	stale, err := listLeftovers(root, files)
	if err != nil {
		return fmt.Errorf("export skills: %w", err)
	}
	for _, name := range stale {
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("export skills: remove what is no skill any more: %w", err)
		}
	}
	return nil
}

// Check lists the differences between dir and the result of Write, nil if there are none.
func Check(dir string, files map[string][]byte) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{dir + " does not exist"}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check skills: %w", err)
	}
	defer root.Close()
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !hasContent(root, name, files[name]) {
			differences = append(differences, name+" is missing or out of date")
		}
	}
	stale, err := listLeftovers(root, files)
	if err != nil {
		return nil, fmt.Errorf("check skills: %w", err)
	}
	for _, name := range stale {
		differences = append(differences, name+" is of no skill any more")
	}
	return differences, nil
}

// listLeftovers lists files that an earlier export made and that this one would not. Other files in a folder,
// or wrote in the place of ours, is not among them.
func listLeftovers(root *os.Root, files map[string][]byte) (names []string, err error) {
	folders, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || !strings.HasPrefix(folder.Name(), Prefix) {
			continue
		}
		for _, pattern := range []string{"SKILL.md", "references/*.md"} {
			found, err := fs.Glob(root.FS(), path.Join(folder.Name(), pattern))
			if err != nil {
				return nil, err
			}
			for _, name := range found {
				if _, ours := files[name]; ours {
					continue
				}
				if data, err := readFile(root, name); err == nil && bytes.Contains(data, []byte(mark)) {
					names = append(names, name)
				}
			}
		}
	}
	return names, nil
}

// hasContent reports whether a regular file has this content.
func hasContent(root *os.Root, name string, data []byte) bool {
	have, err := readFile(root, name)
	return err == nil && bytes.Equal(have, data)
}

// readFile reads a regular file of the size of a page; a FIFO would block, and something huge is not ours.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return nil, fs.ErrInvalid
	}
	return root.ReadFile(name)
}

// replaceFile writes a temporary file and renames it.
func replaceFile(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := root.RemoveAll(tmp); err != nil {
		return err
	}
	if err := root.WriteFile(tmp, data, 0o644); err != nil {
		return errors.Join(err, root.RemoveAll(tmp))
	}
	if err := root.Rename(tmp, name); err != nil {
		return errors.Join(err, root.RemoveAll(tmp))
	}
	return nil
}
