package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mostRest bounds the output read from a pipe after the exit: more than any pipe or terminal holds, so that a child in the
// background that writes for ever cannot hold up the exit.
const mostRest = 1 << 20

// ReadRest passes on, in pieces that lie in buf, the output of a program that has ended: all that can be read without waiting.
func ReadRest(f *os.File, buf []byte, to func([]byte)) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for taken := 0; taken < mostRest; {
		n := 0
		err := raw.Control(func(fd uintptr) {
			for err := error(unix.EINTR); errors.Is(err, unix.EINTR); {
				n, err = unix.Read(int(fd), buf)
			}
		})
		if err != nil || n <= 0 {
			return
		}
		taken += n
		to(buf[:n])
	}
}
