// Package initfile keeps command boxinit, the init of sandboxes, as a file that can be executed. Start with Install.
//
// A lattice that was built with tag boxinit, as make does, has that program in it. Any other, such as one that go build made
// of a fresh clone, has not, and is the init of its sandboxes itself: more slowly, and with the same result. It is a file on the disk because the
// sandbox of an ordinary user executes its init through a read-only mount, which a file in memory cannot have.
package initfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/spritekit/durable"
)

// Install returns the path of command boxinit in dir, where it is written unless it is there. The path is "" where this
// program has none in it, or dir is on a file system from which nothing is executed. One process at a time uses dir.
func Install(dir string) (path string, err error) { return installProgram(dir, programID, program) }

// prefix begins the name of the file; what follows changes with its content.
const prefix = "init-"

func installProgram(dir, id, program string) (path string, err error) {
	if program == "" || !canExecute(dir) {
		return "", nil
	}
	name := prefix + strings.TrimSpace(id)
	path = filepath.Join(dir, name)
	if st, err := os.Lstat(path); err == nil && st.Mode() == 0o755 && st.Size() == int64(len(program)) {
		return path, nil
	}
	if err := removeAll(dir); err != nil { // of other versions; sandboxes that use one keep it
		return "", fmt.Errorf("write the init of sandboxes: %w", err)
	}
	if err := write(path, program); err != nil {
		return "", fmt.Errorf("write the init of sandboxes: %w", err)
	}
	return path, nil
}

// write makes a file whose name is there only when its content is on the disk.
func write(path, program string) error {
	f, err := os.CreateTemp(filepath.Dir(path), prefix+"*.new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(program)
	if err == nil {
		err = f.Chmod(0o755) // the sandbox's user executes it
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.SyncDir(filepath.Dir(path))
}

func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
