package initfile

import "golang.org/x/sys/unix"

// canExecute reports whether files in dir can be executed.
func canExecute(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_NOEXEC == 0
}
