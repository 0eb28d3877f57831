package sandbox

import (
	"golang.org/x/sys/unix"
)

// isMaster reports whether fd is the master side of a pty.
func isMaster(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	return err == nil
}
