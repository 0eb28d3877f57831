// Package idrange gives boxes user ids of the host that no other box has. A [Range] shows the files of a box, which belong to
// one owner on the disk, as files of the box's own ids. It changes no owner on the disk.
package idrange

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// This file gives boxes of a root host id ranges of their own. The kernel counts for each user of the host the resources that exist once
// for all: epoll entries, descriptors on their way through sockets, pages of pipes. Boxes that were one user could take it
// from each other and from the other programs of that user.
//
// On the disk everything stays Owner's, whichever box wrote it: the box's mounts of its own files translate (idmapped
// mounts). So checkpoints, forks and the host's own file calls know nothing of ranges, and cost what they did.

// Ranges lie in the last part of the ids that systemd's scheme and the usual /etc/subuid leave alone.
const (
	firstRange = 0x70000000
	ranges     = 0x1000 // of spec.MapSize each
)

// Range is the host's ids of one box. Nil is the range of Owner, which boxes share.
type Range struct {
	First int      // host id of the box's user 0
	view  *os.File // a user namespace by which mounts show Owner's range as this one
}

// idRanges are the ranges of this process's boxes. Another host's may be the same, which is as good as sharing was.
var idRanges struct {
	mu    sync.Mutex // guards the fields below
	idle  []*Range   // made, and not in use
	next  int
	begun bool
}

// Take takes a range that no other box of this process has. self is an executable that is an init.
func Take(self string) (*Range, error) {
	p := &idRanges
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		r := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return r, nil
	}
	if !p.begun {
		p.begun, p.next = true, rand.IntN(ranges)
	}
	r := &Range{First: firstRange + p.next*spec.MapSize}
	p.next = (p.next + 1) % ranges
	p.mu.Unlock()
	var err error
	r.view, err = r.makeNamespace(self)
	if err != nil {
		return nil, fmt.Errorf("make an id range: %w", err)
	}
	return r, nil
}

// Release lets another box have the range. No process of the box is left.
func (r *Range) Release() {
	if r == nil {
		return
	}
	idRanges.mu.Lock()
	idRanges.idle = append(idRanges.idle, r)
	idRanges.mu.Unlock()
}

// makeNamespace makes the user namespace of r, which outlives the process that it takes to make one. The host's root stays itself
// there: it is root that the kernel has make an overlay's folders.
func (r *Range) makeNamespace(self string) (*os.File, error) {
	wait, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer end.Close()
	program, err := os.Open(self)
	if err != nil {
		wait.Close()
		return nil, err
	}
	defer program.Close()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: spec.OutsideLow, HostID: r.First, Size: spec.MapSize}}
	cmd := exec.Command("/proc/self/fd/4", spec.InitArg, spec.StageHold) // root of a user namespace may not be able to walk to the file
	cmd.Args[0], cmd.Env, cmd.Dir, cmd.ExtraFiles = "sprite-ids", []string{}, "/", []*os.File{wait, program}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, Setsid: true}
	err = cmd.Start()
	wait.Close()
	if err != nil {
		return nil, err
	}
	view, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	cmd.Process.Kill()
	cmd.Wait() // says how it was killed
	return view, err
}

// Show has a detached mount show Owner's files as the box's.
func (r *Range) Show(mount int) error {
	if r == nil {
		return nil
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(r.view.Fd())}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("map ids: %w", err)
	}
	return nil
}

// FirstID is the host's id of the box's user 0.
func (r *Range) FirstID() int {
	if r == nil {
		return spec.OutsideLow
	}
	return r.First
}
