package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/netns"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sys/unix"
)

// builder is an init that has done all work that does not depend on the plan.
type builder struct {
	self    string // names init's executable in any root
	filters filters
}

// makeBuilder does as much as it can.
func makeBuilder(k spec.Kind, control *channel.Socket) (b builder, err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return b, spec.FailedAt("hide init", err)
	}
	if b.self, err = ownExecutable(k.Level); err != nil {
		return b, spec.FailedAt("show init its executable", err)
	}
	if k.Network {
		if err := netns.SetUp(control); err != nil {
			return b, err
		}
	}
	b.filters, err = newFilters()
	return b, err
}

// enterBox builds the box of plan p and replaces this process by the second stage, which has no privilege. It returns only to
// report a failure. The caller's thread must be locked: credentials belong to threads, and exec keeps those of its caller.
func (b builder) enterBox(p view.Plan, received []*os.File) error {
	p.AsRoot = p.AsRoot && allThreads()
	site, err := buildRoot(p, received)
	if err != nil {
		return err
	}
	line := p.Without.Args("sprite-init", spec.InitArg, spec.StageServe)
	keep := site.TurnLate
	switch {
	case p.AsRoot:
		line[2] = spec.StageRoot
	case p.LoneRoot:
		line[2] = spec.StageLone
		keep = func() error {
			if err := b.startKeeper(p.Limits); err != nil {
				line = append(line, err.Error()) // a box without root is a box
			}
			return site.TurnLate()
		}
	}
	if err := confineThread(p, b.filters, keep); err != nil {
		return err
	}
	err = syscall.Exec(b.self, line, []string{})
	if errors.Is(err, fs.ErrNotExist) { // it is there, but it asks for a loader that only the host has
		err = fmt.Errorf("%w: this lattice is linked dynamically, and the root has none of its libraries; build it with CGO_ENABLED=0", err)
	}
	return spec.FailedAt("start the second stage of init", err)
}

// ownExecutable names init's executable on a read-only mount. A command can have itself started as /proc/self/exe, which
// init recognises as its own: at LevelUser the kernel takes the command for the owner of that file, which could change its
// mode and attributes through a writable mount. Where the host is root, the file belongs to no user of the box.
func ownExecutable(level spec.Level) (string, error) {
	const running = "/proc/self/exe"
	if level == spec.LevelRoot {
		return running, nil
	}
	path, err := os.Readlink(running)
	if err != nil {
		return "", err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open_tree %s: %w", path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return "", fmt.Errorf("mount_setattr: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// buildRoot makes the new root and moves into it.
func buildRoot(p view.Plan, received []*os.File) (*view.Site, error) {
	w := &view.Site{Level: p.Level, Dir: -1}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return w, spec.FailedAt("make mounts private", err)
	}
	// All mounts first: the new root covers a folder of the old one.
	mounts, err := allMounts(p, received) // which the second stage does not inherit
	if err != nil {
		return w, err
	}

	// Any folder that surely exists can carry the new root until it is the root.
	const base = "/proc"
	if err := unix.MoveMount(int(mounts[0].Fd()), "", unix.AT_FDCWD, base, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return w, spec.FailedAt("mount the new root", err)
	}
	if err := unix.Chdir(base); err != nil {
		return w, spec.FailedAt("enter the new root", err)
	}
	if err := openRoot(); err != nil {
		return w, spec.FailedAt("let the sprite make folders in /", err)
	}
	next := 1
	for _, s := range p.Steps {
		mount := -1
		if s.Opens() {
			mount = int(mounts[next].Fd())
			next++
		}
		if err := s.CarryOut(w, mount); err != nil {
			return w, spec.FailedAt(fmt.Sprintf("%s /%s", s.Kind, s.Path), err)
		}
	}
	w.Leave()
	return w, pivotRoot()
}

// openRoot lets the sprite's user make folders in /, such as /app, and take away only those.
func openRoot() error {
	var st unix.Stat_t
	if err := unix.Stat(".", &st); err != nil || st.Uid == spec.InsideID {
		return err
	}
	const mode = 0o1777
	if st.Mode&0o7777 == mode {
		return nil
	}
	return spec.Ignoring(unix.EROFS, unix.Chmod(".", mode))
}

// allMounts returns one detached mount per step that begins with one, the root's first: those of the host's files that a
// privileged host made, and new ones.
func allMounts(p view.Plan, received []*os.File) ([]*os.File, error) {
	if !p.Received {
		return view.OpenMounts(p.Mounts(view.Step.Opens), p.Level, nil)
	}
	if want := len(p.Mounts(view.Step.OfHost)); len(received) != want {
		return received, spec.FailedAt("receive mounts", fmt.Errorf("got %d, want %d", len(received), want))
	}
	var all []*os.File
	for _, s := range p.Mounts(view.Step.Opens) {
		if s.OfHost() {
			all, received = append(all, received[0]), received[1:]
			continue
		}
		made, err := view.OpenMounts([]view.Step{s}, p.Level, nil)
		if err != nil {
			return append(all, received...), err
		}
		all = append(all, made...)
	}
	return all, nil
}

// pivotRoot makes the working directory the root and lets go of the host's tree.
func pivotRoot() error {
	// Stacking the old root on the new one needs no folder for it; see pivot_root(2).
	if err := unix.PivotRoot(".", "."); err != nil {
		return spec.FailedAt("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return spec.FailedAt("let go of the host's root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return spec.FailedAt("enter the new root", err)
	}
	return nil
}
