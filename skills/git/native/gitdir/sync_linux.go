package gitdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem makes durable what was written to the file system of dir.
func syncFileSystem(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }
