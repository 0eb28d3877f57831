//go:build !linux

package walk

import (
	"os"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// File is a file that is being read.
type File struct {
	file *os.File
	size int64
}

// openFile opens a regular file in the folder.
func (f *folder) openFile(root *workspace.Root, name string) (*File, error) {
	info, err := root.Lstat(joinPath(f.path, name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrSpecial
	}
	file, err := root.Open(joinPath(f.path, name))
	if err != nil {
		return nil, err
	}
	return &File{file, info.Size()}, nil
}

func (f *folder) hasFile(root *workspace.Root, name string) bool {
	_, err := root.Lstat(joinPath(f.path, name))
	return err == nil
}

// Size is how many bytes it had when it was opened.
func (f *File) Size() int64 { return f.size }

func (f *File) Read(p []byte) (int, error) { return f.file.Read(p) }

// Close closes the folder. The error of a folder that was only read is ignored.
func (f *File) Close() { f.file.Close() }

// listEntries returns some more entries of the folder, io.EOF after the last.
func (f *folder) listEntries(*workspace.Root) ([]dirent, error) {
	found, err := f.file.ReadDir(4 * shared)
	entries := make([]dirent, len(found))
	for i, d := range found {
		entries[i] = dirent{d.Name(), d.Type()}
	}
	return entries, err
}
