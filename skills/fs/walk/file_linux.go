package walk

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// File is a file that is being read. It is made for trees of very many: an os.File costs twice the system calls.
type File struct {
	fd   int
	size int64
}

// openFile opens a regular file in the folder. The name has one element and no symlink is followed, so that whatever happens
// to the tree at the same time, it is a file in this folder.
func (f *folder) openFile(_ *workspace.Root, name string) (*File, error) {
	fd, err := retryEINTR(func() (int, error) {
		return syscall.Openat(int(f.fd), name, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: joinPath(f.path, name), Err: err}
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

func (f *folder) hasFile(_ *workspace.Root, name string) bool {
	return syscall.Faccessat(int(f.fd), name, 0, 0) == nil
}

// Size is how many bytes it had when it was opened.
func (f *File) Size() int64 { return f.size }

func (f *File) Read(p []byte) (int, error) {
	n, err := retryEINTR(func() (int, error) { return syscall.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Close closes the folder. The error of a folder that was only read is ignored.
func (f *File) Close() { syscall.Close(f.fd) }

func retryEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// listEntries returns some more entries of the folder, io.EOF after the last. An os.File that came from an os.Root asks for
// each entry's details; the kernel tells the type of file along with the name.
func (f *folder) listEntries(root *workspace.Root) ([]dirent, error) {
	if f.buffer == nil {
		f.buffer = make([]byte, 16<<10)
	}
	n, err := retryEINTR(func() (int, error) { return syscall.ReadDirent(int(f.fd), f.buffer) })
	if err != nil {
		return nil, os.NewSyscallError("getdents64", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	entries := make([]dirent, 0, n/32)
	for rest := f.buffer[:n]; len(rest) > nameAt; {
		// ino u64, off i64, reclen u16, type u8, name, NUL: struct linux_dirent64
		length, kind := int(binary.NativeEndian.Uint16(rest[16:])), rest[18]
		raw, _, _ := bytes.Cut(rest[nameAt:length], []byte{0})
		name := string(raw)
		rest = rest[length:]
		if name == "." || name == ".." {
			continue
		}
		e := dirent{name, typeOf(kind)}
		if kind == syscall.DT_UNKNOWN { // some file systems do not tell
			info, err := root.Lstat(joinPath(f.path, name))
			if err != nil {
				continue // removed since it was listed
			}
			e.kind = info.Mode().Type()
		}
		entries = append(entries, e)
	}
	return entries, nil
}

const nameAt = 19

func typeOf(kind byte) fs.FileMode {
	switch kind {
	case syscall.DT_REG:
		return 0
	case syscall.DT_DIR:
		return fs.ModeDir
	case syscall.DT_LNK:
		return fs.ModeSymlink
	case syscall.DT_FIFO:
		return fs.ModeNamedPipe
	case syscall.DT_SOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}
