package guest

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

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
	"golang.org/x/sys/unix"
)

// fsCall serves the calls whose names begin with "fs.".
func (s *server) fsCall(ctx context.Context, name string, body json.RawMessage, received []*os.File) (answer any, send []*os.File, err error) {
	if s.plain {
		return nil, nil, unknownCall(name)
	}
	var target channel.FSTarget
	if name == channel.FSOpen || name == channel.FSWrite {
		if err := json.Unmarshal(body, &target); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
	}
	if wanted := map[string]int{channel.FSWrite: 1, channel.FSDo: 1, channel.FSWatch: 1}[name]; len(received) != wanted {
		return nil, nil, fmt.Errorf("%s: %d descriptors: %w", name, len(received), syscall.EINVAL)
	}
	switch name {
	case channel.FSOpen:
		file, _, err := files.OpenRegular(files.Kernel{}, string(target.Path))
		if err == nil {
			file, err = settledFile(file)
		}
		if err != nil {
			return nil, nil, err
		}
		return nil, []*os.File{file}, nil
	case channel.FSWrite:
		content := io.NewSectionReader(received[0], 0, target.Size)
		given, err := files.Write(files.Kernel{}, string(target.Path), content, target.Size, target.Mode)
		return given, nil, err
	case channel.FSDo:
		var op files.Op
		if err := json.Unmarshal(body, &op); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, syscall.EINVAL)
		}
		out := files.NewEncoder(received[0])
		if err := files.Do(ctx, files.Kernel{}, op, out.Entry); err != nil {
			return nil, nil, err
		}
		return nil, nil, out.End()
	case channel.FSWatch:
		return nil, nil, s.watchFiles(ctx, received[0])
	}
	return nil, nil, unknownCall(name)
}

// watchFiles talks about changes until the other end is closed.
func (s *server) watchFiles(ctx context.Context, f *os.File) error {
	s.mu.Lock()
	if s.watches >= channel.MaxWatches {
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

// maxPseudo bounds the bytes returned of a file whose content the kernel generates.
const maxPseudo = 1 << 20

// settledFile returns f, or a copy of a file whose content is generated while it is read: its size is not known before, and the
// host must never read from a file system that the box controls.
func settledFile(f *os.File) (*os.File, error) {
	if !procfs.IsPseudo(f) {
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
