package core

import (
	"golang.org/x/sys/unix"
)

func FreeSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, err
	}
	size := uint64(st.Bsize)
	return Space{uint64(st.Bavail) * size, uint64(st.Blocks) * size, uint64(st.Ffree), uint64(st.Files)}, nil
}
