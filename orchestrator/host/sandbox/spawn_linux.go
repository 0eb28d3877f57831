package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
	"golang.org/x/sys/unix"
)

// spawnInit starts an init in its namespaces (or plainly) with child as its control socket.
func spawnInit(k spec.Kind, ids *idrange.Range, g *cgroup.Group, child *os.File, stderr io.Writer) (*exec.Cmd, error) {
	self, err := os.Open(k.Self)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's init: %w", err)
	}
	defer self.Close()
	cmd := &exec.Cmd{
		// By descriptor: the box's user may not be able to walk to the file.
		Path:       "/proc/self/fd/4",
		Args:       []string{"sprite-init", spec.InitArg, spec.StageSetup},
		Env:        []string{},
		Dir:        "/",
		Stderr:     stderr,
		ExtraFiles: []*os.File{child, self},
		WaitDelay:  endTimeout, // for processes that left a plain box with init's standard error
	}
	if k.Level == spec.LevelProcess {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd, startProcess(cmd, g)
	}
	if cmd.SysProcAttr, err = namespaceAttr(k, ids); err != nil {
		return nil, err
	}
	if k.HostPids {
		cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWPID
	}
	if k.Network {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, unix.CAP_NET_ADMIN) // routes and rules
	}
	if err := startProcess(cmd, g); err != nil || !k.SubIDs.Valid() {
		return cmd, err
	}
	if err := k.SubIDs.MapBox(cmd.Process.Pid, spec.InsideID); err != nil {
		cmd.Process.Kill()
		cmd.Wait() // says how it was killed
		return nil, refusalOf(spec.FailedAt(spec.StepSubIDs, err))
	}
	return cmd, nil
}

// drawPlan returns the plan for init, with the descriptors that go along; the caller closes those.
func drawPlan(c spec.Config, ids *idrange.Range) (p view.Plan, mounts []*os.File, err error) {
	if c.Plain() {
		return p, nil, nil
	}
	if p, err = view.NewPlan(c); err != nil {
		return p, nil, fmt.Errorf("plan the sandbox: %w", err)
	}
	if c.Level == spec.LevelRoot {
		p.Received = true
		if mounts, err = view.OpenMounts(p.Mounts(view.Step.OfHost), p.Level, ids); err != nil {
			return p, nil, refusalOf(err)
		}
	}
	return p, mounts, nil
}

func startProcess(cmd *exec.Cmd, g *cgroup.Group) error {
	if err := g.Start(cmd); err != nil {
		return refusalOf(spec.FailedAt(spec.StepNamespaces, err))
	}
	return nil
}

// namespaceAttr asks for the box's namespaces. Init is user 1000 in them from its first moment: host root is mapped nowhere,
// because the kernel takes files' owners by host id. The capabilities that init needs to build the root are ambient, and lost
// with the second stage. With sub-ids init begins without a map, and does nothing that needs one until it gets its plan.
func namespaceAttr(k spec.Kind, ids *idrange.Range) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		AmbientCaps: []uintptr{
			unix.CAP_SYS_ADMIN,    // mounts, pivot_root, host name
			unix.CAP_SETPCAP,      // empty the bounding set
			unix.CAP_SYS_RESOURCE, // forbid nested user namespaces
			unix.CAP_DAC_OVERRIDE, // make places for mounts in folders of the box's root
			unix.CAP_CHOWN,        // and give them to it
			unix.CAP_FOWNER,       // and, in /tmp, remove existing files
			// The rest of rootCapabilities: kept with Config.AsRoot.
			unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE,
		},
	}
	uid, gid := spec.Owner()
	if uid < 0 {
		return nil, &spec.Refusal{
			Step:   "choose a user for the sandbox",
			Cause:  fmt.Sprintf("root here has no ids %d to %d to give", spec.OutsideLow, spec.OutsideLow+spec.MapSize-1),
			Remedy: "run lattice as an ordinary user, or as root outside a user namespace",
		}
	}
	if k.SubIDs.Valid() {
		return attr, nil
	}
	if os.Getuid() != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: spec.InsideID, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: spec.InsideID, HostID: gid, Size: 1}}
		return attr, nil
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: ids.FirstID(), Size: spec.MapSize}}
	attr.GidMappings = attr.UidMappings
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: spec.InsideID, Gid: spec.InsideID}
	return attr, nil
}

// refusalOf returns the remedy for a failed step. A temporary shortage is not a refusal, and neither is a
// full disk: a caller must not conclude from them that boxes cannot be had here, and go on with less.
func refusalOf(err error) error { return refusalBy(err, spec.ReadKnob) }

func refusalBy(err error, knob func(string) string) error {
	r := &spec.Refusal{Step: "make a sandbox", Cause: err.Error()}
	if failure, ok := errors.AsType[*spec.SetupFailure](err); ok {
		r.Step, r.Cause = failure.Step, failure.Err.Error()
	}
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	switch {
	case spec.Short(err), full && r.Step == spec.StepNamespaces && knob("user/max_user_namespaces") != "0":
		return spec.NewShortage(fmt.Errorf("make a sandbox: %w", err))
	case full && r.Step != spec.StepNamespaces:
		return fmt.Errorf("make a sandbox: %w", err)
	}
	r.Remedy = chooseRemedy(r.Step, err, knob)
	return r
}

// chooseRemedy chooses by the knobs that are known to refuse namespaces, then by the error. knob reads one below /proc/sys.
func chooseRemedy(step string, err error, knob func(string) string) string {
	switch {
	case knob("kernel/apparmor_restrict_unprivileged_userns") == "1" && os.Getuid() != 0:
		return "AppArmor restricts user namespaces here: `lattice doctor --apparmor-profile` prints a profile that lets lattice make them and says how it is loaded"
	case knob("kernel/unprivileged_userns_clone") == "0" && os.Getuid() != 0:
		return "run `sysctl kernel.unprivileged_userns_clone=1` as root"
	case knob("user/max_user_namespaces") == "0":
		return "raise the limit: `sysctl user.max_user_namespaces=10000` as root"
	case step == spec.StepSubIDs:
		return "newuidmap and newgidmap must be setuid root and take the ranges of /etc/subuid and /etc/subgid; `one_user = true` in the settings does without"
	case errors.Is(err, unix.EACCES) && step == spec.StepNamespaces:
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
