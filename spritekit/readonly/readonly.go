// Package readonly starts programs that can read all files but change few. Start with [Start].
//
// It needs no rights. On Linux, Landlock enforces the restriction for the program and all that it starts, whatever they are called with.
// Landlock does not cover permissions and times of files, and before Linux 6.2 not the cutting of files by their path.
package readonly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrUnavailable says that this system cannot enforce the restriction.
var ErrUnavailable = errors.New("read-only programs need Landlock, which Linux has since 5.13")

// Except returns paths for [Start] that hold all of the file system but the protected paths and all below them. Of these, the kept paths
// are returned all the same, without protected paths below them; protected may name the root. Nothing can be made in the
// folders that lead to a protected path. All paths are absolute, and the protected ones without symlinks; kept ones that do not exist are left out.
func Except(protected, kept []string) ([]string, error) {
	var writable []string
	if !slices.Contains(protected, "/") {
		var err error
		if writable, err = listAround("/", protected); err != nil {
			return nil, err
		}
	}
	for _, path := range kept {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var around []string
		if err == nil {
			around, err = listAround(real, protected)
		}
		if err != nil {
			return nil, fmt.Errorf("keep %s writable: %w", path, err)
		}
		writable = append(writable, around...)
	}
	return writable, nil
}

// listAround returns dir, or if it leads to protected paths all else in it.
func listAround(dir string, protected []string) ([]string, error) {
	leads := false
	for _, p := range protected {
		if p == dir {
			return nil, nil
		}
		leads = leads || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") && p != "/"
	}
	if !leads {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // it leads to a path that is judged by itself
		}
		below, err := listAround(filepath.Join(dir, e.Name()), protected)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}
