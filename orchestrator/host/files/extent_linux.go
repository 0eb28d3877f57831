package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// cloneBlocks shares the blocks of a file with another, where the file system can.
func cloneBlocks(out, in *os.File) bool {
	return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil
}

// NextExtent finds the next bytes at or behind at that are no hole.
func NextExtent(f *os.File, at, size int64) (start, end int64) {
	start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size // a hole to the end
	}
	if err != nil {
		return at, size
	}
	end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	if err != nil {
		end = size
	}
	return min(start, size), min(end, size)
}
