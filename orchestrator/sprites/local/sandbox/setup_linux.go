package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file is the privileged stage of init: it runs inside the new namespaces with capabilities over them only, builds
// the root, gives everything up, and becomes the second stage.

// controlFD is where init finds its end of the control socket, in both stages.
const controlFD = 3

// setupFailure names the step at which the system refused.
type setupFailure struct {
	step string
	err  error
}

func (f *setupFailure) Error() string { return f.step + ": " + f.err.Error() }
func (f *setupFailure) Unwrap() error { return f.err }

// enter builds what p says and replaces this process by the second stage, which has no privilege. It returns only to
// report a failure. The caller's thread must be locked: credentials belong to threads, and exec keeps those of its caller.
func enter(p plan, received []*os.File) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return &setupFailure{"hide init", err}
	}
	if err := build(p, received); err != nil {
		return err
	}
	if err := confine(p); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", []string{"sprite-init", InitArg, stageServe}, []string{})
	return &setupFailure{"start the second stage of init", err}
}

// build makes the new root and moves into it.
func build(p plan, received []*os.File) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &setupFailure{"make mounts private", err}
	}
	// Sources first: the new root covers a folder of the old one.
	sources, err := bindSources(p, received)
	if err != nil {
		return err
	}
	defer closeAll(sources)

	// Any folder that surely exists can carry the new root until it is the root.
	const base = "/proc"
	if err := unix.Mount("sprite", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4m"); err != nil {
		return &setupFailure{"mount the new root", err}
	}
	if err := unix.Chdir(base); err != nil {
		return &setupFailure{"enter the new root", err}
	}
	next := 0
	for _, s := range p.Steps {
		var source *os.File
		if s.Kind == stepBind {
			source = sources[next]
			next++
		}
		if err := s.carryOut(source); err != nil {
			return &setupFailure{fmt.Sprintf("%s /%s", s.Kind, s.Path), err}
		}
	}
	return pivot()
}

// bindSources returns one detached mount per bind step: those that a privileged host made, or new ones.
func bindSources(p plan, received []*os.File) ([]*os.File, error) {
	if p.Received {
		if want := len(p.binds()); len(received) != want {
			return received, &setupFailure{"receive mounts", fmt.Errorf("got %d, want %d", len(received), want)}
		}
		return received, nil
	}
	return openBinds(p)
}

func (p plan) binds() (binds []step) {
	for _, s := range p.Steps {
		if s.Kind == stepBind {
			binds = append(binds, s)
		}
	}
	return binds
}

// openBinds clones the mount of each bind step's source, restricted as the step says and attached nowhere. A host that is
// root does this before it starts init, because init is then a user who may not walk to the sprite's folders.
func openBinds(p plan) (sources []*os.File, err error) {
	for _, s := range p.binds() {
		f, err := openBind(s)
		if err != nil {
			closeAll(sources)
			return nil, &setupFailure{"show " + s.Source, err}
		}
		sources = append(sources, f)
	}
	return sources, nil
}

func openBind(s step) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID, Propagation: unix.MS_PRIVATE}
	if !s.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if s.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	return os.NewFile(uintptr(fd), s.Source), nil
}

// carryOut does one step below the working directory, which is the new root.
func (s step) carryOut(source *os.File) error {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return err
	}
	switch s.Kind {
	case stepDir:
		return os.MkdirAll(s.Path, 0o755)
	case stepFile:
		return os.WriteFile(s.Path, []byte(s.Content), 0o644)
	case stepLink:
		return os.Symlink(s.Source, s.Path)
	case stepBind:
		if err := s.mountPoint(); err != nil {
			return err
		}
		return unix.MoveMount(int(source.Fd()), "", unix.AT_FDCWD, s.Path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err := os.MkdirAll(s.Path, 0o755); err != nil {
		return err
	}
	switch s.Kind {
	case stepProc:
		return unix.Mount("proc", s.Path, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	case stepPts:
		return unix.Mount("devpts", s.Path, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	case stepTmp:
		return unix.Mount("tmpfs", s.Path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, s.Source)
	default:
		return fmt.Errorf("unknown step %q", s.Kind)
	}
}

func (s step) mountPoint() error {
	if !s.File {
		return os.MkdirAll(s.Path, 0o755)
	}
	f, err := os.OpenFile(s.Path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// pivot makes the working directory the root, lets go of the host's tree and seals the root: whatever is not a mount of
// its own is read-only, so that nothing outside the checkpointed tree can be written unnoticed.
func pivot() error {
	// Stacking the old root on the new one needs no folder for it; see pivot_root(2).
	if err := unix.PivotRoot(".", "."); err != nil {
		return &setupFailure{"pivot_root", err}
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return &setupFailure{"let go of the host's root", err}
	}
	if err := unix.Chdir("/"); err != nil {
		return &setupFailure{"enter the new root", err}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return &setupFailure{"seal the root", err}
	}
	return nil
}

// confine gives up, for this thread and all that comes of it, everything that init needed until here.
func confine(p plan) error {
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return &setupFailure{"set the host name", err}
	}
	// Nested user namespaces would give back capabilities, and with them much of the kernel. A kernel without the knob
	// leaves them possible; the mounts are then still locked.
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return &setupFailure{"forbid nested user namespaces", err}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return &setupFailure{"forbid core dumps", err}
	}
	// A fresh session keyring, where the kernel has keyrings: the host's must not be reachable.
	if _, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); errno != 0 && errno != unix.ENOSYS && errno != unix.EPERM {
		return &setupFailure{"leave the host's keyring", errno}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &setupFailure{"set no_new_privs", err}
	}
	return dropCapabilities()
}

func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > unix.CAP_AUDIT_READ {
			break // past the last one that this kernel knows
		}
		if err != nil {
			return &setupFailure{"empty the bounding set", err}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return &setupFailure{"empty the ambient set", err}
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return &setupFailure{"drop capabilities", err}
	}
	return nil
}

// harden readies init, now without privilege, for hostile company.
func harden() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide init: %w", err)
	}
	// Not closed but marked: the runtime may have descriptors of its own by now.
	if err := unix.CloseRange(controlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	return nil
}
