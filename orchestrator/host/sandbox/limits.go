package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// BoxLimits are the limits of a running box, and the mechanism that enforces them.
type BoxLimits struct{ box *Box }

// Limits returns the limits of the box.
func (b *Box) Limits() BoxLimits { return BoxLimits{b} }

// Enforced tells of every limit of the box whether it holds. A group of the kernel's (cgroup) bounds all processes together.
// Where this process may not make groups, the number of processes is bounded by a resource limit of the box's own user
// namespace, or, where root of the box can be several users, by the process ids of its pid namespace; and memory and processors
// are not bounded: no such limit exists for several processes.
func (l BoxLimits) Enforced() []spec.Enforcement {
	remedy := "this user may not make control groups here; run lattice as root, or with some delegated (systemd-run --user --scope -p Delegate=yes lattice serve)"
	if os.Getuid() == 0 {
		remedy = "control groups cannot be made here, as in most containers; bound the container itself, or run lattice outside it"
	}
	limits := l.box.cfg.Limits
	limits.MemoryBytes = l.Memory()
	all := []spec.Enforcement{{Limit: spec.DefencePids}, {Limit: spec.DefenceMemory}, {Limit: spec.DefenceCPU}, {Limit: spec.DefenceTmpSize}}
	for i, e := range all {
		all[i] = e.Of(limits)
		switch {
		case !l.box.cfg.Defended(e.Limit):
			all[i].Why = "left out"
		case l.box.group.Keeps(e.Limit):
			all[i].By = "cgroup"
		case e.Limit == spec.DefencePids && l.box.cfg.FewPids:
			all[i].By = "pidns"
		case e.Limit == spec.DefencePids && l.box.cfg.Level == spec.LevelUser && l.box.cfg.Rooted():
			all[i].Why = "root of the sprite can be several users, and each may have so many processes: use Linux 6.14 or later, or set one_user; " + remedy
		case e.Limit == spec.DefencePids && !l.box.cfg.Plain() && spec.CountsPerNamespace():
			all[i].By = "rlimit"
		case e.Limit == spec.DefenceTmpSize && !l.box.cfg.Plain():
			all[i].By = "tmpfs"
		case e.Limit == spec.DefenceTmpSize:
			all[i].Why = "a plain process tree has no file systems of its own"
		default:
			all[i].Why = remedy
		}
	}
	return all
}

// Used returns how much the running box uses of what a limit bounds, 0 if the kernel does not count it; see [cgroup.Group.Used].
func (l BoxLimits) Used(limit spec.Defence) float64 { return l.box.group.Used(limit) }

// Memory returns how much memory the box may use at present.
func (l BoxLimits) Memory() int64 {
	if changed := l.box.memory.Load(); changed > 0 {
		return changed
	}
	return l.box.cfg.Limits.MemoryBytes
}

// SetMemory gives the running box another limit of memory; 0 is the default. The error says why the one from before holds
// on: processes that need more already are not killed for it.
func (l BoxLimits) SetMemory(bytes int64) error {
	limits := spec.Limits{MemoryBytes: bytes}.OrDefaults(spec.MachineMemory())
	if !l.box.group.Keeps(spec.DefenceMemory) {
		return errors.New("no control group keeps this sandbox to a limit of memory; `lattice doctor` says what helps")
	}
	if err := l.box.group.Resize(limits); err != nil {
		return fmt.Errorf("the sandbox keeps its limit of %d MiB until it is started again: %w", l.Memory()>>20, err)
	}
	l.box.memory.Store(limits.MemoryBytes)
	return nil
}
