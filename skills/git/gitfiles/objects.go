package gitfiles

import (
	"bytes"
	"compress/zlib"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// ObjectBytes returns the size of packs and loose objects on disk, in bytes. It skips unreadable folders.
func (f Files) ObjectBytes() (total int64) {
	objects := filepath.Join(f.At.CommonDir, "objects")
	dirs, err := os.ReadDir(objects)
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		files, err := os.ReadDir(filepath.Join(objects, dir.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
				total += info.Size()
			}
		}
	}
	return total
}

// LooseObject reads the type and content of a loose object of at most maxSmall bytes.
func (f Files) LooseObject(id string) (kind string, content []byte, ok bool) {
	file, err := f.At.Root.OpenFile(filepath.Join(f.At.CommonDir, "objects", id[:2], id[2:]), os.O_RDONLY, 0)
	if err != nil {
		return "", nil, false
	}
	defer file.Close()
	z, err := zlib.NewReader(file)
	if err != nil {
		return "", nil, false
	}
	data, err := io.ReadAll(io.LimitReader(z, maxSmall+1))
	header, content, found := bytes.Cut(data, []byte{0})
	kind, _, _ = strings.Cut(string(header), " ")
	return kind, content, err == nil && found && len(data) <= maxSmall
}

// Operation names the operation that the repository is in the middle of, such as merging, or returns "".
func (f Files) Operation() string {
	for _, o := range engine.Operations() {
		if _, err := os.Lstat(filepath.Join(f.At.GitDir, o[0])); err == nil {
			return o[1]
		}
	}
	return ""
}
