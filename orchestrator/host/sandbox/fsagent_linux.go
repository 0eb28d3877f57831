package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/files"
)

// fsCall serves the calls whose names begin with "fs.".
func (s *server) fsCall(ctx context.Context, name string, body json.RawMessage, received []*os.File) (answer any, send []*os.File, err error) {
	if s.plain {
		return nil, nil, unknownCall(name)
	}
	var target fsTarget
	if name == fsOpen || name == fsWrite {
		if err := json.Unmarshal(body, &target); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
	}
	if wanted := map[string]int{fsWrite: 1, fsDo: 1, fsWatch: 1}[name]; len(received) != wanted {
		return nil, nil, fmt.Errorf("%s: %d descriptors: %w", name, len(received), syscall.EINVAL)
	}
	switch name {
	case fsOpen:
		file, _, err := files.OpenRegular(files.Kernel{}, string(target.Path))
		if err == nil {
			file, err = settled(file)
		}
		if err != nil {
			return nil, nil, err
		}
		return nil, []*os.File{file}, nil
	case fsWrite:
		content := io.NewSectionReader(received[0], 0, target.Size)
		given, err := files.Write(files.Kernel{}, string(target.Path), content, target.Size, target.Mode)
		return given, nil, err
	case fsDo:
		var op files.Op
		if err := json.Unmarshal(body, &op); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
		out := files.NewEncoder(received[0])
		if err := files.Do(ctx, files.Kernel{}, op, out.Entry); err != nil {
			return nil, nil, err
		}
		return nil, nil, out.End()
	case fsWatch:
		return nil, nil, s.watch(ctx, received[0])
	}
	return nil, nil, unknownCall(name)
}

// watch talks about changes until the other end is closed.
func (s *server) watch(ctx context.Context, f *os.File) error {
	s.mu.Lock()
	if s.watches >= maxWatches {
		s.mu.Unlock()
		return syscall.EMFILE
	}
	s.watches++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.watches--
		s.mu.Unlock()
	}()
	conn, err := net.FileConn(f)
	if err != nil {
		return err
	}
	f.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return files.Watch(files.Kernel{}, conn)
}

// maxPseudo bounds what is handed out of a file whose content the kernel makes up.
const maxPseudo = 1 << 20

// settled returns f, or of a file that only the reading brings into being a copy: its size is not known before, and the host
// shall never read what a file system of the box's makes up for it.
func settled(f *os.File) (*os.File, error) {
	if !pseudo(f) {
		return f, nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxPseudo))
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	copied := os.NewFile(uintptr(fd), f.Name())
	if _, err := io.Copy(copied, bytes.NewReader(content)); err != nil {
		return nil, errors.Join(err, copied.Close())
	}
	return copied, nil
}

// pseudo reports whether reading f runs code of the kernel's instead of fetching bytes, or whether that is not known.
func pseudo(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return true
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.NSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PID_FS_MAGIC,
		unix.ANON_INODE_FS_MAGIC:
		return true
	}
	return false
}

// checkReceived looks at what init handed over for a file to read.
func checkReceived(f *os.File) (size int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return 0, err
	case !st.Mode().IsRegular(), flags&unix.O_PATH != 0, flags&unix.O_ACCMODE == unix.O_WRONLY, st.Size() < 0, pseudo(f):
		return 0, syscall.EINVAL
	}
	return st.Size(), nil
}
