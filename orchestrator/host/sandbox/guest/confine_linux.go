package guest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sys/unix"
)

// confineThread gives up, for this thread and all that comes of it, everything that init needed until here. It calls keep where a
// process that is started inherits every wall but those that keep must be able to raise again: the filter and the capabilities.
func confineThread(p view.Plan, calls filters, keep func() error) error {
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return spec.FailedAt("set the host name", err)
	}
	if err := limitSelf(p.Limits, p.Without); err != nil {
		return err
	}
	// A fresh session keyring, where the kernel has keyrings: the host's must not be reachable.
	if _, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); errno != 0 && errno != unix.ENOSYS && errno != unix.EPERM {
		return spec.FailedAt("leave the host's keyring", errno)
	}
	if p.Without.Defended(spec.DefenceNoNewPrivs) {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return spec.FailedAt("set no_new_privs", err)
		}
	}
	if p.Without.Defended(spec.DefenceLandlock) && p.Without.Defended(spec.DefenceNoNewPrivs) { // which it asks for
		if err := fenceThread(); err != nil {
			return err
		}
	}
	if err := keep(); err != nil {
		return err
	}
	if p.AsRoot { // the groups of the user who runs the host, which were of use until here
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return spec.FailedAt("leave the host's groups", errno)
		}
	}
	if p.Without.Defended(spec.DefenceSeccomp) {
		if err := calls.loadFilters(); err != nil {
			return err
		}
	}
	if p.Without.Defended(spec.DefenceCaps) {
		return dropCapabilities(p.AsRoot)
	}
	return nil
}

// dropCapabilities drops all, or with root all but rootCapabilities.
func dropCapabilities(root bool) error {
	for c := uintptr(0); ; c++ {
		if root && slices.Contains(rootCapabilities, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > unix.CAP_AUDIT_READ {
			break // past the last one that this kernel knows
		}
		if err != nil {
			return spec.FailedAt("empty the bounding set", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return spec.FailedAt("empty the ambient set", err)
	}
	if root {
		return keepForRoot()
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return spec.FailedAt("drop capabilities", err)
	}
	return nil
}

// hardenInit readies init, now without privilege, for hostile company.
func hardenInit(left spec.Without) error {
	if left.Defended(spec.DefenceDumpable) {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // of the process, not the thread
			return fmt.Errorf("hide init: %w", err)
		}
	}
	if left.Defended(spec.DefenceCloseFDs) {
		// Not closed but marked: the runtime may have descriptors of its own by now.
		if err := unix.CloseRange(spec.ControlFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) {
			return fmt.Errorf("close inherited descriptors: %w", err)
		}
	}
	return ignoreReserved()
}
