//go:build unix

package transfer

import (
	"io/fs"
	"syscall"
)

// fileID tells whether two names are one file.
type fileID struct{ dev, ino uint64 }

// sameFile returns the name under which a file with several names was seen first.
func sameFile(seen map[fileID]string, st fs.FileInfo, name string) (first string, again bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || sys.Nlink < 2 {
		return "", false
	}
	id := fileID{uint64(sys.Dev), uint64(sys.Ino)}
	if first, again = seen[id]; !again {
		seen[id] = name
	}
	return first, again
}
