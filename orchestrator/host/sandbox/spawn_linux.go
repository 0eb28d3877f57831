package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Owner names the host user and group to which, on the disk, the files of every box made with namespaces belong: the user who
// runs the host process, or, when that is root, an unprivileged one. Without Config.OwnIDs commands run as them, too. -1, -1 means that root has no other user to give (it maps only itself).
func Owner() (uid, gid int) {
	if uid := os.Getuid(); uid != 0 {
		return uid, os.Getgid()
	}
	if mapped("/proc/self/uid_map") && mapped("/proc/self/gid_map") {
		return outsideLow + insideID, outsideLow + insideID
	}
	return -1, -1
}

// mapped reports whether this process, itself perhaps in a user namespace, can name all of Owner's ids.
func mapped(file string) bool { return mappedRange(file, outsideLow) }

// mappedRange reports whether it can name the range that begins with first.
func mappedRange(file string, first int) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var inside, outside, size int64
		if n, _ := fmt.Sscan(sc.Text(), &inside, &outside, &size); n == 3 && inside <= int64(first) && inside+size >= int64(first)+mapSize {
			return true
		}
	}
	return false
}

// spawn starts an init in its namespaces (or plainly) with child as its control socket.
func spawn(k kind, ids *idRange, g *group, child *os.File, stderr io.Writer) (*exec.Cmd, error) {
	self, err := os.Open(k.self)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's init: %w", err)
	}
	defer self.Close()
	cmd := &exec.Cmd{
		// By descriptor: the box's user may not be able to walk to the file.
		Path:       "/proc/self/fd/4",
		Args:       []string{"sprite-init", InitArg, stageSetup},
		Env:        []string{},
		Dir:        "/",
		Stderr:     stderr,
		ExtraFiles: []*os.File{child, self},
		WaitDelay:  endTimeout, // for what left a plain box with init's standard error
	}
	if k.Level == LevelProcess {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd, start(cmd, g)
	}
	if cmd.SysProcAttr, err = namespaces(ids); err != nil {
		return nil, err
	}
	if k.hostPids {
		cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWPID
	}
	if k.Network {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, unix.CAP_NET_ADMIN) // routes and rules
	}
	return cmd, start(cmd, g)
}

// draw says what init is to build, with the descriptors that go along; the caller closes those.
func draw(c Config, ids *idRange) (p plan, mounts []*os.File, err error) {
	if c.plain() {
		return p, nil, nil
	}
	if p, err = newPlan(c); err != nil {
		return p, nil, fmt.Errorf("plan the sandbox: %w", err)
	}
	if c.Level == LevelRoot {
		p.Received = true
		if mounts, err = openMounts(p.mounts(step.ofHost), p.Level, ids); err != nil {
			return p, nil, refusal(err)
		}
	}
	return p, mounts, nil
}

func start(cmd *exec.Cmd, g *group) error {
	if err := g.start(cmd); err != nil {
		return refusal(failedAt(stepNamespaces, err))
	}
	return nil
}

// namespaces asks for the box's namespaces. Init is user 1000 in them from its first moment: host root is mapped
// nowhere, because the kernel takes files' owners by host id. What init needs to build the root is ambient, and lost with
// the second stage.
func namespaces(ids *idRange) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		AmbientCaps: []uintptr{
			unix.CAP_SYS_ADMIN,    // mounts, pivot_root, host name
			unix.CAP_SETPCAP,      // empty the bounding set
			unix.CAP_SYS_RESOURCE, // forbid nested user namespaces
			unix.CAP_DAC_OVERRIDE, // make places for mounts in folders of the box's root
			unix.CAP_CHOWN,        // and give them to it
			unix.CAP_FOWNER,       // and, in /tmp, remove what stands there
			// What is left of rootCapabilities: kept with Config.AsRoot.
			unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE,
		},
	}
	uid, gid := Owner()
	if uid < 0 {
		return nil, &Refusal{
			Step:   "choose a user for the sandbox",
			Cause:  fmt.Sprintf("root here has no ids %d to %d to give", outsideLow, outsideLow+mapSize-1),
			Remedy: "run lattice as an ordinary user, or as root outside a user namespace",
		}
	}
	if os.Getuid() != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: gid, Size: 1}}
		return attr, nil
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: ids.firstID(), Size: mapSize}}
	attr.GidMappings = attr.UidMappings
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: insideID, Gid: insideID}
	return attr, nil
}

// stepNamespaces is the step at which the kernel says ENOSPC of namespaces. Everywhere else it says that of disks.
const stepNamespaces = "start init in new namespaces"

// refusal says what to do about a failed step. What the machine is short of for the moment is no refusal, and neither is a
// full disk: nobody may conclude from them that boxes cannot be had here, and go on with less.
func refusal(err error) error { return refusalBy(err, readKnob) }

func refusalBy(err error, knob func(string) string) error {
	r := &Refusal{Step: "make a sandbox", Cause: err.Error()}
	var failure *setupFailure
	if errors.As(err, &failure) {
		r.Step, r.Cause = failure.step, failure.err.Error()
	}
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	switch {
	case Short(err), full && r.Step == stepNamespaces && knob("user/max_user_namespaces") != "0":
		return newShortage(fmt.Errorf("make a sandbox: %w", err))
	case full && r.Step != stepNamespaces:
		return fmt.Errorf("make a sandbox: %w", err)
	}
	r.Remedy = remedy(r.Step, err, knob)
	return r
}

func readKnob(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + name) // a missing knob reads as empty
	return strings.TrimSpace(string(b))
}

// remedy is chosen by the knobs that are known to refuse namespaces, then by the error. knob reads one below /proc/sys.
func remedy(step string, err error, knob func(string) string) string {
	switch {
	case knob("kernel/apparmor_restrict_unprivileged_userns") == "1" && os.Getuid() != 0:
		return "AppArmor restricts user namespaces here: `lattice doctor --apparmor-profile` prints a profile that lets lattice make them and says how it is loaded"
	case knob("kernel/unprivileged_userns_clone") == "0" && os.Getuid() != 0:
		return "run `sysctl kernel.unprivileged_userns_clone=1` as root"
	case knob("user/max_user_namespaces") == "0":
		return "raise the limit: `sysctl user.max_user_namespaces=10000` as root"
	case errors.Is(err, unix.EACCES) && step == stepNamespaces:
		return "make the lattice executable readable and executable by all users (chmod 755), on a file system without noexec"
	case errors.Is(err, unix.ENOSYS):
		return "use Linux 5.12 or newer; a container's seccomp profile may also be hiding open_tree, move_mount and mount_setattr"
	case strings.HasSuffix(step, "proc /proc"):
		return "this container masks parts of /proc: start it with unmasked paths (docker: --security-opt systempaths=unconfined)"
	case errors.Is(err, unix.EPERM) && os.Getuid() == 0 && !mayMount():
		return "root has no CAP_SYS_ADMIN here, as in most containers: run lattice as an ordinary user, who needs none (docker: --user 1000 --security-opt seccomp=unconfined --security-opt systempaths=unconfined), or outside the container"
	case errors.Is(err, unix.EPERM):
		return "this container forbids namespaces: allow them (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined), or run lattice outside it"
	default:
		return "run `lattice doctor`, or use a remote sprite (SPRITES_API_URL)"
	}
}

// mayMount reports whether this process may mount file systems where it is.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	err := unix.Capget(&header, &sets[0])
	return err == nil && sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
