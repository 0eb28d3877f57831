package host

import "golang.org/x/sys/unix"

func roomOf(dir string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return room{}, err
	}
	size := uint64(st.Bsize)
	return room{uint64(st.Bavail) * size, uint64(st.Blocks) * size, uint64(st.Ffree), uint64(st.Files)}, nil
}
