package sandbox

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// checkSocket refuses a file other than a connected TCP socket.
func checkSocket(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var bad error
	if err := raw.Control(func(fd uintptr) { bad = checkTCP(int(fd)) }); err != nil {
		return err
	}
	return bad
}

func checkTCP(fd int) error {
	for _, must := range []struct {
		option int
		is     []int
		what   string
	}{
		{unix.SO_DOMAIN, []int{unix.AF_INET, unix.AF_INET6}, "an internet socket"},
		{unix.SO_TYPE, []int{unix.SOCK_STREAM}, "a stream"},
		{unix.SO_PROTOCOL, []int{unix.IPPROTO_TCP}, "TCP"},
		{unix.SO_ACCEPTCONN, []int{0}, "a connection"},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, must.option)
		if err != nil {
			return err
		}
		if !slices.Contains(must.is, got) {
			return fmt.Errorf("it is not %s", must.what)
		}
	}
	_, err := unix.Getpeername(fd)
	return err
}
