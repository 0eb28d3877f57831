package gitdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem makes all data of the file system of dir durable.
func syncFileSystem(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }
