package image

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// pipedFolder is a folder that is read as a tar while it is written as one.
type pipedFolder struct {
	*io.PipeReader
	done chan struct{}
}

func (p *pipedFolder) Close() error {
	err := p.PipeReader.Close()
	<-p.done
	return err
}

// writeFolder writes a folder as a tar: names in order, times in whole seconds, hard links to the first of their names.
// Equal folders give equal bytes. Files on other devices (a mounted /proc) and sockets are left out.
func writeFolder(ctx context.Context, to io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f := &folderWriter{ctx: ctx, root: root, tar: tar.NewWriter(to), links: map[inode]string{}}
	if err := f.writeEntry("."); err != nil {
		return err
	}
	return f.tar.Close()
}

type inode struct{ dev, ino uint64 }

type folderWriter struct {
	ctx   context.Context
	root  *os.Root
	tar   *tar.Writer
	links map[inode]string // first names of files with several
	dev   uint64
}

func (f *folderWriter) writeEntry(name string) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = f.root.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	// Names of users are those of this machine, so only the numbers that the sprite will see are written.
	*h = tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid,
		ModTime: h.ModTime.Truncate(time.Second), Devmajor: h.Devmajor, Devminor: h.Devminor, Format: tar.FormatPAX,
	}
	if info.IsDir() {
		h.Name += "/"
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // of other types on other systems
		if name == "." {
			f.dev = id.dev
		}
		if id.dev != f.dev {
			return nil
		}
		if first, seen := f.links[id]; seen {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return f.tar.WriteHeader(h)
		}
		if st.Nlink > 1 && !info.IsDir() {
			f.links[id] = name
		}
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return f.tar.WriteHeader(h)
	}
	return f.writeContent(name, h, info)
}

// writeContent writes a file or a folder with all in it.
func (f *folderWriter) writeContent(name string, h *tar.Header, info fs.FileInfo) (err error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrPermission) {
		return &Refusal{fmt.Sprintf("%s in it cannot be read: %v", name, err), "import it as the user whose it is, or make a tar of it"}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if now, err := file.Stat(); err != nil || !os.SameFile(info, now) {
		return cmp.Or(err, errChanged)
	}
	attrs, err := attrsOf(file)
	if err != nil {
		return err
	}
	for name, value := range attrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[paxAttr+name] = value
	}
	if err := f.tar.WriteHeader(h); err != nil {
		return err
	}
	if !info.IsDir() {
		if _, err := io.CopyN(f.tar, file, h.Size); err == io.EOF {
			return errChanged
		} else if err != nil {
			return err
		}
		return nil
	}
	names, err := file.Readdirnames(-1)
	if err != nil {
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
