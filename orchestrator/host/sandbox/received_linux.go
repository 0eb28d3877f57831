package sandbox

import (
	"os"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
	"golang.org/x/sys/unix"
)

// checkReceived checks a descriptor from init that should be a file to read.
func checkReceived(f *os.File) (size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return 0, err
	case !st.Mode().IsRegular(), flags&unix.O_PATH != 0, flags&unix.O_ACCMODE == unix.O_WRONLY, st.Size() < 0, procfs.IsPseudo(f):
		return 0, syscall.EINVAL
	}
	return st.Size(), nil
}
