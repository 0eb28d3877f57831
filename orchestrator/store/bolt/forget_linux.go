package bolt

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache drops the page cache of a file: after a failed fsync its pages count as written although they never were, and the
// next read should return the content of the disk. It is advice, which the kernel may ignore.
func dropCache(path string) {
	f, err := os.Open(path)
	if err != nil {
		return // Open says why
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
