package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// record is manifests/installed.json: the names, relative to the folder, that installs have written so far.
type record struct {
	Files []string `json:"files"`
}

const maxRecord = 1 << 20 // bytes

func recordPath(dir string) string { return filepath.Join(dir, "manifests", "installed.json") }

// readRecord reads the record of a folder; one that is missing or damaged lists nothing.
func readRecord(dir string) (r record) {
	info, err := os.Lstat(recordPath(dir))
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return record{}
	}
	data, err := os.ReadFile(recordPath(dir))
	if err != nil || json.Unmarshal(data, &r) != nil {
		return record{}
	}
	return r
}

func (k Kit) writeRecord(dir string) error {
	files := readRecord(dir).Files
	for _, x := range k.listExecutables() {
		files = append(files, x[0])
	}
	for name := range k.Manifests {
		files = append(files, name, manifestName(name))
	}
	slices.Sort(files)
	data, err := json.Marshal(record{Files: slices.Compact(files)})
	if err != nil {
		return err
	}
	if hasContent(recordPath(dir), data) {
		return nil
	}
	return replaceFile(recordPath(dir), bytes.NewReader(data), 0o444)
}

func manifestName(skill string) string { return "manifests/" + skill + "/skill.json" }

// inTheWay lists files with our names that have other content and were not written by an install.
func (k Kit) inTheWay(dir string) (foreign []string, err error) {
	ours := readRecord(dir).Files
	look := func(name string, same func(path string) bool) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		_, statErr := os.Lstat(path)
		switch {
		case errors.Is(statErr, fs.ErrNotExist) || slices.Contains(ours, name) && !isFolder(path):
		case statErr != nil:
			err = errors.Join(err, statErr)
		case !same(path):
			foreign = append(foreign, name)
		}
	}
	for _, x := range k.listExecutables() {
		look(x[0], func(path string) bool {
			same, hashErr := sameContent(x[1], path)
			if hashErr != nil {
				err = errors.Join(err, fmt.Errorf("compare %s: %w", path, hashErr))
			}
			return same
		})
	}
	for _, name := range slices.Sorted(maps.Keys(k.Manifests)) {
		look(name, func(path string) bool {
			target, linkErr := os.Readlink(path)
			return linkErr == nil && target == binary
		})
		look(manifestName(name), func(path string) bool { return hasContent(path, k.Manifests[name]) })
	}
	return foreign, err
}
