package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/spritekit/lattice/orchestrator/bytecount"
	"github.com/spritekit/lattice/spritekit/fault"
)

// prefixPath adds the input's path to err, and keeps its exit code.
func prefixPath(path string, err error) error {
	if e := fault.As(err); e != nil {
		return fault.New(e.Exit, e.Code, "%s: %s", path, e.Message).WithHint("%s", e.Hint)
	}
	return err
}

// tarRootfs writes a root filesystem as a tar.
func (b *builder) tarRootfs(from string) func(io.Writer) error {
	return func(to io.Writer) error {
		info, err := os.Stat(from)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return refuseMissing("images/rootfs/build makes a root filesystem of Debian", "no such file or folder")
		case err != nil:
			return err
		case !info.IsDir():
			return copyTar(to, from, func(done int64) { b.Tell("read "+from, done, info.Size()) })
		}
		size, err := measureFolder(from)
		if err != nil {
			return err
		}
		w := tar.NewWriter(to)
		return cmp.Or(writeFolder(w, from, "", b.Time, func(done int64) { b.Tell("read "+from, done, size) }), w.Close())
	}
}

// copyTar writes a tar as it is, but not compressed. It tells how many bytes of the file were read.
func copyTar(to io.Writer, from string, tell func(done int64)) (err error) {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	plain, err := openCompressed(io.TeeReader(f, &bytecount.Counter{Tell: tell}))
	if err != nil {
		return err
	}
	defer plain.Close()
	_, err = io.Copy(to, plain)
	return err
}

// openCompressed reads a stream that is plain, or compressed by gzip or zstd, as its first bytes show.
func openCompressed(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, inputError("", "it is damaged: %v", err)
		}
		return z, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, inputError("", "it is damaged: %v", err)
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}

// writeFolder writes a folder's tree below the name prefix, in the order of names; "" is the root, which has no entry.
// Nothing follows links out of it. tell, which may be nil, is told how many bytes of its files were read.
func writeFolder(w *tar.Writer, dir, prefix string, at time.Time, tell func(done int64)) error {
	return walkFolder(dir, folder{w: w, prefix: prefix, at: at, read: bytecount.Counter{Tell: tell}})
}

// measureFolder returns how many bytes of files writeFolder reads.
func measureFolder(dir string) (size int64, err error) {
	err = walkFolder(dir, folder{w: tar.NewWriter(io.Discard), size: &size})
	return size, err
}

func walkFolder(dir string, f folder) (err error) {
	if f.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.root.Close()) }()
	f.firsts = map[inode]string{}
	return f.writeEntry(".")
}

type inode struct{ dev, ino uint64 }

// folder is a folder that is written as a tar.
type folder struct {
	root   *os.Root
	w      *tar.Writer
	prefix string
	at     time.Time
	firsts map[inode]string // first names of files with several
	dev    uint64
	read   bytecount.Counter
	size   *int64 // if not nil, the sizes of files are added here, and files are not written
}

func (f *folder) writeEntry(name string) error {
	info, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: path.Join(f.prefix, name), Mode: tarMode(info.Mode()), ModTime: f.at}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // of other types on other systems
		if name == "." {
			f.dev = id.dev
		}
		if id.dev != f.dev {
			return nil // a mounted /proc
		}
		if first, seen := f.firsts[id]; seen {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return f.w.WriteHeader(h)
		}
		if st.Nlink > 1 && !info.IsDir() {
			f.firsts[id] = h.Name
		}
	}
	switch {
	case info.IsDir():
		return f.writeDir(name, h)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		if h.Linkname, err = f.root.Readlink(name); err != nil {
			return err
		}
		return f.w.WriteHeader(h)
	case info.Mode()&fs.ModeNamedPipe != 0:
		h.Typeflag = tar.TypeFifo
		return f.w.WriteHeader(h)
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		return f.writeFile(name, h, info)
	}
	return nil // devices and sockets
}

func (f *folder) writeDir(name string, h *tar.Header) error {
	h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	if h.Name != "./" {
		if err := f.w.WriteHeader(h); err != nil {
			return err
		}
	}
	d, err := f.openFile(name)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := f.writeEntry(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) writeFile(name string, h *tar.Header, info fs.FileInfo) (err error) {
	if f.size != nil {
		*f.size += h.Size
		return nil
	}
	file, err := f.openFile(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if now, err := file.Stat(); err != nil || !os.SameFile(info, now) {
		return cmp.Or(err, errChanged)
	}
	if err := f.w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(f.w, io.TeeReader(file, &f.read), h.Size); err == io.EOF {
		return errChanged
	} else if err != nil {
		return err
	}
	return nil
}

func (f *folder) openFile(name string) (*os.File, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, inputError("build as the user whose it is, or give a tar", "%s in it cannot be read", filepath.Join("/", name))
	}
	return file, err
}

// tarMode is a file's mode as a tar has it.
func tarMode(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// errChanged means that another process writes to a file that is read.
var errChanged = errors.New("it changed while it was read")
