package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mostRest bounds the bytes that ReadRest reads. It is more than a pipe or terminal can hold. Without it, a background child that keeps
// writing would delay the exit without limit.
const mostRest = 1 << 20

// ReadRest calls to with the output of a program that has ended, as far as it can be read without blocking. Each piece is a part of
// buf, and valid until to returns.
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
