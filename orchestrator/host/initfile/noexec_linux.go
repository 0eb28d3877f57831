package initfile

import "golang.org/x/sys/unix"

// executes reports whether files in dir can be executed.
func executes(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_NOEXEC == 0
}
