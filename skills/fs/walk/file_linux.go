package walk

import (
	"io"
	"os"
	"syscall"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// File is a file that is being read. It is made for trees of very many: an os.File costs twice the system calls.
type File struct {
	fd   int
	size int64
}

// open opens a regular file in the folder. The name has one element and no symlink is followed, so that whatever happens
// to the tree at the same time, it is a file in this folder.
func (f *folder) open(_ *workspace.Root, name string) (*File, error) {
	fd, err := retry(func() (int, error) {
		return syscall.Openat(int(f.fd), name, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: join(f.path, name), Err: err}
	}
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = ErrSpecial
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &File{fd, st.Size}, nil
}

func (f *folder) has(_ *workspace.Root, name string) bool {
	return syscall.Faccessat(int(f.fd), name, 0, 0) == nil
}

// Size is how many bytes it had when it was opened.
func (f *File) Size() int64 { return f.size }

func (f *File) Read(p []byte) (int, error) {
	n, err := retry(func() (int, error) { return syscall.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close closes it; what was only read has nothing to lose.
func (f *File) Close() { syscall.Close(f.fd) }

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
