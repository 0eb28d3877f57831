package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Enforced tells of every limit of the box whether it holds. A group of the kernel's (cgroup) bounds all processes together.
// Where this process may not make groups, the number of processes is bounded by a resource limit of the box's own user
// namespace, and memory and processors by nothing: there is no such limit for several processes.
func (b *Box) Enforced() []spec.Enforcement {
	remedy := "this user may not make control groups here; run lattice as root, or with some delegated (systemd-run --user --scope -p Delegate=yes lattice serve)"
	if os.Getuid() == 0 {
		remedy = "control groups cannot be made here, as in most containers; bound the container itself, or run lattice outside it"
	}
	limits := b.cfg.Limits
	limits.MemoryBytes = b.MemoryLimit()
	all := []spec.Enforcement{{Limit: spec.DefencePids}, {Limit: spec.DefenceMemory}, {Limit: spec.DefenceCPU}, {Limit: spec.DefenceTmpSize}}
	for i, e := range all {
		all[i] = e.Of(limits)
		switch {
		case !b.cfg.Defended(e.Limit):
			all[i].Why = "left out"
		case b.group.Keeps(e.Limit):
			all[i].By = "cgroup"
		case e.Limit == spec.DefencePids && !b.cfg.Plain() && spec.CountsPerNamespace():
			all[i].By = "rlimit"
		case e.Limit == spec.DefenceTmpSize && !b.cfg.Plain():
			all[i].By = "tmpfs"
		case e.Limit == spec.DefenceTmpSize:
			all[i].Why = "a plain process tree has no file systems of its own"
		default:
			all[i].Why = remedy
		}
	}
	return all
}

// MemoryLimit is how much memory the box may use at present.
func (b *Box) MemoryLimit() int64 {
	if changed := b.memory.Load(); changed > 0 {
		return changed
	}
	return b.cfg.Limits.MemoryBytes
}

// LimitMemory gives the running box another limit of memory; 0 is the default. The error says why the one from before holds
// on: processes that need more already are not killed for it.
func (b *Box) LimitMemory(bytes int64) error {
	limits := spec.Limits{MemoryBytes: bytes}.OrDefaults(spec.MachineMemory())
	if !b.group.Keeps(spec.DefenceMemory) {
		return errors.New("no control group keeps this sandbox to a limit of memory; `lattice doctor` says what helps")
	}
	if err := b.group.Resize(limits); err != nil {
		return fmt.Errorf("the sandbox keeps its limit of %d MiB until it is started again: %w", b.MemoryLimit()>>20, err)
	}
	b.memory.Store(limits.MemoryBytes)
	return nil
}
