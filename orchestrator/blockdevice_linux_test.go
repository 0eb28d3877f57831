package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// blockFile is a file that the kernel reads and writes through this process, by FUSE, so that a loop device on it is a
// disk whose every write and flush is known here. It keeps the writes in their order.
type blockFile struct {
	path string // where the kernel has it
	base string // as it was before the first write
	file *os.File
	conn *os.File // with the kernel

	mu      sync.Mutex
	writes  []blockWrite
	flushed int // as many writes are on the disk for good
	// before is called with the lock held, before each write and each flush is taken in.
	before func()
	// flush is called with the lock held, and reports whether a flush succeeds. It may take its time.
	flush func() bool
	err   error // that ended serve too early
}

type blockWrite struct {
	offset int64
	data   []byte
}

// newBlockFile serves base, of which it makes a copy to write to, at base+".block".
func newBlockFile(t *testing.T, base string) *blockFile {
	t.Helper()
	b := &blockFile{path: base + ".block", base: base}
	copyDisk(t, base, base+".now")
	var err error
	if b.file, err = os.OpenFile(base+".now", os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("this machine has no FUSE: %v", err)
	}
	b.conn = os.NewFile(uintptr(conn), "/dev/fuse") // serve may still read it when it is closed, and its number belongs to another file
	t.Cleanup(func() { _ = b.conn.Close() })
	err = unix.Mount("lattice-test", b.path, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=100600,user_id=0,group_id=0", conn))
	if err != nil {
		t.Skipf("this machine mounts no FUSE: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(b.path, unix.MNT_DETACH) })
	go b.serve()
	return b
}

// Requests of the kernel, linux/fuse.h.
const (
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseWrite   = 16
	fuseRelease = 18
	fuseFsync   = 20
	fuseFlush   = 25
	fuseInit    = 26
	fuseForget  = 2
	fuseIntr    = 36

	maxBlockIO = 1 << 20
)

// serve answers the kernel's requests, one after the other, until the file is unmounted.
func (b *blockFile) serve() {
	if err := b.answerAll(); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}
}

func (b *blockFile) answerAll() error {
	buf := make([]byte, maxBlockIO+4096)
	for {
		n, err := b.conn.Read(buf)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENODEV) || errors.Is(err, os.ErrClosed): // unmounted
			return nil
		case err != nil:
			return err
		case n < 40:
			return fmt.Errorf("a request of %d bytes", n)
		}
		in := buf[:n]
		op := binary.LittleEndian.Uint32(in[4:])
		if op == fuseForget || op == fuseIntr {
			continue
		}
		body, errno := b.answer(op, in[40:])
		out := binary.LittleEndian.AppendUint32(make([]byte, 0, 16+len(body)), uint32(16+len(body)))
		out = binary.LittleEndian.AppendUint32(out, uint32(-int32(errno)))
		out = append(out, in[8:16]...) // which request
		if _, err := b.conn.Write(append(out, body...)); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
}

// answer performs one request, and returns the body of its answer.
func (b *blockFile) answer(op uint32, in []byte) ([]byte, unix.Errno) {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	words := func(all ...uint32) (out []byte) {
		for _, w := range all {
			out = binary.LittleEndian.AppendUint32(out, w)
		}
		return out
	}
	switch op {
	case fuseInit:
		const bigWrites, maxPages = 1 << 5, 1 << 22
		return words(7, 31, u32(in[8:]), u32(in[12:])&(bigWrites|maxPages), 0, maxBlockIO, 1, maxBlockIO/4096, 0, 0, 0, 0, 0, 0, 0, 0), 0
	case fuseGetattr:
		info, err := b.file.Stat()
		if err != nil {
			return nil, unix.EIO
		}
		size := uint64(info.Size())
		out := append(words(3600, 0, 0, 0), words(1, 0, uint32(size), uint32(size>>32), uint32(size/512), uint32(size/512>>32))...)
		out = append(out, make([]byte, 3*8+3*4)...) // times
		return append(out, words(unix.S_IFREG|0o600, 1, 0, 0, 0, 4096, 0)...), 0
	case fuseOpen:
		return words(1, 0, 0, 0), 0
	case fuseRead:
		data := make([]byte, u32(in[16:]))
		n, err := b.file.ReadAt(data, int64(u64(in[8:])))
		if err != nil && err != io.EOF {
			return nil, unix.EIO
		}
		return data[:n], 0
	case fuseWrite:
		b.mu.Lock()
		defer b.mu.Unlock()
		w := blockWrite{int64(u64(in[8:])), append([]byte(nil), in[40:40+u32(in[16:])]...)}
		if b.before != nil {
			b.before()
		}
		if _, err := b.file.WriteAt(w.data, w.offset); err != nil {
			return nil, unix.EIO
		}
		b.writes = append(b.writes, w)
		return words(uint32(len(w.data)), 0), 0
	case fuseFsync:
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.before != nil {
			b.before()
		}
		if b.flush != nil && !b.flush() {
			return nil, unix.EIO
		}
		b.flushed = len(b.writes)
		return nil, 0
	case fuseFlush, fuseRelease:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

// moment is where the power may go: after so many writes, of which so many are on the disk for good.
type moment struct {
	writes, flushed int
	pushed          int // how often the origin had been pushed to, see job.pushed
}

// diskReplay makes disks of moments, one later than the other.
type diskReplay struct {
	*blockFile
	held  *os.File // the disk with the writes that were flushed
	wrote int
}

func (b *blockFile) newReplay(t *testing.T, path string) *diskReplay {
	t.Helper()
	copyDisk(t, b.base, path)
	held, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return &diskReplay{blockFile: b, held: held}
}

// writeImage writes the disk as it is after a loss of power at a moment, which must not be before the last one. The image has all flushed
// writes. Of the later writes it has either all, with the last one torn, or each with a probability of one half. writeImage returns how
// many are missing.
func (r *diskReplay) writeImage(t *testing.T, path string, m moment, random *rand.Rand) (lost int) {
	t.Helper()
	for ; r.wrote < m.flushed; r.wrote++ {
		if _, err := r.held.WriteAt(r.writes[r.wrote].data, r.writes[r.wrote].offset); err != nil {
			t.Fatal(err)
		}
	}
	copyDisk(t, r.held.Name(), path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	some := random.IntN(2) == 0
	for n, w := range r.writes[m.flushed:m.writes] {
		data := w.data
		switch {
		case some && random.IntN(2) == 0:
			lost++
			continue
		case some && random.IntN(8) == 0, !some && m.flushed+n == m.writes-1:
			data = data[:len(data)/1024*512] // a sector is whole
		}
		if _, err := f.WriteAt(data, w.offset); err != nil {
			t.Fatal(err)
		}
	}
	return lost
}

func copyDisk(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the disk: %v: %s", err, out)
	}
}
