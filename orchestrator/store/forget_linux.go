package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget drops what the kernel remembers of a file: after a failed fsync its pages count as written although they never
// were, and what is read next should be what is on disk. It is advice; a kernel that does not take it is no worse.
func forget(path string) {
	f, err := os.Open(path)
	if err != nil {
		return // openFile says why
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
