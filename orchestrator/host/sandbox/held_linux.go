package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// Held counts the entries of the box. It does not see descriptors on their way through sockets.
func (p Processes) Held() (all Held) {
	for _, pid := range append(procfs.Descendants(p.init), p.init) {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			continue // it has ended
		}
		names, _ := dir.Readdirnames(-1) // the names that could be read count
		dir.Close()
		all.Files += uint64(len(names))
		for _, name := range names {
			if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, name)); err != nil || link != "anon_inode:[eventpoll]" {
				continue
			}
			info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name)) // it may have been closed
			all.Entries += uint64(bytes.Count(info, []byte("\ntfd:")))
		}
	}
	return all
}

// Room returns the sizes of the tables that Held counts; 0 where they are unknown.
func Room() Held {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(spec.ReadKnob(name), 10, 64) // a missing knob reads as empty
		return n
	}
	return Held{Files: number("fs/file-max"), Entries: number("fs/epoll/max_user_watches")}
}

// Reserve keeps some epoll entries of this process's user for the host: to accept a connection takes one.
type Reserve struct {
	list    int // an epoll instance, -1 for none
	watched []int
}

// reserved is how many entries a Reserve keeps.
const reserved = 128

// NewReserve returns a Reserve that keeps nothing yet.
func NewReserve() *Reserve { return &Reserve{list: -1} }

// Keep keeps the entries, and reports whether there are more. When there are not, the kept ones are free for others to use.
func (r *Reserve) Keep() bool {
	if r.list >= 0 {
		unix.Close(r.watched[0]) // and with it goes its entry; another one takes its place
		r.watched = r.watched[1:]
	} else {
		list, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return !errors.Is(err, unix.ENOMEM)
		}
		r.list = list
	}
	for len(r.watched) < reserved {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err == nil {
			r.watched = append(r.watched, fd)
			err = unix.EpollCtl(r.list, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{})
		}
		if err != nil {
			r.Release()
			return !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.ENOMEM)
		}
	}
	return true
}

// Release frees the entries.
func (r *Reserve) Release() {
	if r.list < 0 {
		return
	}
	for _, fd := range append(r.watched, r.list) {
		unix.Close(fd)
	}
	r.list, r.watched = -1, nil
}
