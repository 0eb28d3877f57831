package fs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// explainMissing gives an error of opening a file or folder its remedy.
func explainMissing(c *skill.Call, rel string, err error) error {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return isDirectory(rel)
	case errors.Is(err, fs.ErrNotExist):
		missing := fault.NotFound("not_found", "%s is not there", rel)
		if near := nearName(c, rel); near != "" {
			return missing.WithHint("did you mean %s?", near)
		}
		return missing.WithHint("fs.list shows what a folder holds")
	}
	return err
}

func isDirectory(rel string) error {
	return fault.Failed("is_directory", "%s is a folder", rel).WithHint("fs.list shows what it holds; name a file in it")
}

// nearName returns an existing path similar to rel, "" if there is none.
func nearName(c *skill.Call, rel string) string {
	dir, want := path.Split(rel)
	entries, err := c.Root.List(path.Clean(dir))
	if err != nil {
		return "" // the folder is missing, too
	}
	best, found := len(want)/2+1, ""
	for _, e := range entries {
		if d := editDistance(want, e.Name()); d < best {
			best, found = d, dir+e.Name()
		}
	}
	return found
}

// editDistance is how far two names are apart: 0 but for case, 1 for another extension, else the letters to insert, remove
// or change, where more than 2 count as far.
func editDistance(a, b string) int {
	const far = 1 << 10
	a, b = strings.ToLower(a), strings.ToLower(b)
	stem := strings.TrimSuffix(a, path.Ext(a))
	switch {
	case a == b:
		return 0
	case stem != "" && stem == strings.TrimSuffix(b, path.Ext(b)):
		return 1
	case max(len(a)-len(b), len(b)-len(a)) > 2:
		return far
	}
	if d := manifests.Distance(a, b); d <= 2 {
		return d
	}
	return far
}
