package workspace

import "os"

// Root confines all file access of a skill to one directory tree. All paths given to its methods are relative to the
// root or absolute below it ("/workspace/repo/a" and "repo/a" name the same file).
type Root struct {
	dir  string
	root *os.Root
}

// Open opens dir as a workspace root.
func Open(dir string) (*Root, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Root{dir: dir, root: r}, nil
}

// Dir is the absolute path of the root, for child processes.
func (r *Root) Dir() string { return r.dir }
