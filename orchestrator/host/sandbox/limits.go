package sandbox

import (
	"errors"
	"fmt"
	"os"
)

// Limits bound what a box may use. 0 is the default; what cannot be enforced here is not an error, Box.Enforced tells.
type Limits struct {
	Pids        int     `json:"pids,omitempty"`         // processes and threads
	MemoryBytes int64   `json:"memory_bytes,omitempty"` // memory of all processes together, with the box's memory file systems
	CPUs        float64 `json:"cpus,omitempty"`         // processors' worth of time; by default as much as others leave
	TmpBytes    int64   `json:"tmp_bytes,omitempty"`    // each memory file system: /run, /dev/shm
}

// What a box gets that was given no limits of its own.
const (
	defaultPids = 4096
	defaultTmp  = 256 << 20 // bytes of each memory file system
	devSize     = 1 << 20   // bytes of /dev, which is sealed when it is complete
)

// orDefaults fills in what l leaves open, on a machine with so much memory: a box may have three quarters of it, so that the
// host stays with its wits.
func (l Limits) orDefaults(machine int64) Limits {
	if l.Pids <= 0 {
		l.Pids = defaultPids
	}
	if l.MemoryBytes <= 0 {
		l.MemoryBytes = machine / 4 * 3
	}
	if l.TmpBytes <= 0 {
		l.TmpBytes = defaultTmp
	}
	return l
}

// Enforcement says of one limit how it is kept.
type Enforcement struct {
	Limit Defence `json:"limit"`         // pids, memory (bytes), cpu (processors) or tmp-size (bytes)
	Max   float64 `json:"max,omitempty"` // 0: as much as others leave
	By    string  `json:"by,omitempty"`  // "cgroup", "rlimit" or "tmpfs"; "" when nothing keeps it here
	Why   string  `json:"why,omitempty"` // why nothing does, and what helps
}

// Of is how a limit is kept by boxes like the one that told e, but with limits l.
func (e Enforcement) Of(l Limits) Enforcement {
	l = l.orDefaults(machineMemory())
	switch e.Limit {
	case DefencePids:
		e.Max = float64(l.Pids)
	case DefenceMemory:
		e.Max = float64(l.MemoryBytes)
	case DefenceCPU:
		e.Max = l.CPUs
	case DefenceTmpSize:
		e.Max = float64(l.TmpBytes)
	}
	return e
}

// Enforced tells of every limit of the box whether it holds. A group of the kernel's (cgroup) bounds all processes together.
// Where this process may not make groups, the number of processes is bounded by a resource limit of the box's own user
// namespace, and memory and processors by nothing: there is no such limit for several processes.
func (b *Box) Enforced() []Enforcement {
	remedy := "this user may not make control groups here; run lattice as root, or with some delegated (systemd-run --user --scope -p Delegate=yes lattice serve)"
	if os.Getuid() == 0 {
		remedy = "control groups cannot be made here, as in most containers; bound the container itself, or run lattice outside it"
	}
	limits := b.cfg.Limits
	limits.MemoryBytes = b.MemoryLimit()
	all := []Enforcement{{Limit: DefencePids}, {Limit: DefenceMemory}, {Limit: DefenceCPU}, {Limit: DefenceTmpSize}}
	for i, e := range all {
		all[i] = e.Of(limits)
		switch {
		case !b.cfg.defended(e.Limit):
			all[i].Why = "left out"
		case b.group.keeps(e.Limit):
			all[i].By = "cgroup"
		case e.Limit == DefencePids && !b.cfg.plain() && countsPerNamespace():
			all[i].By = "rlimit"
		case e.Limit == DefenceTmpSize && !b.cfg.plain():
			all[i].By = "tmpfs"
		case e.Limit == DefenceTmpSize:
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
	limits := Limits{MemoryBytes: bytes}.orDefaults(machineMemory())
	if !b.group.keeps(DefenceMemory) {
		return errors.New("no control group keeps this sandbox to a limit of memory; `lattice doctor` says what helps")
	}
	if err := b.group.resize(limits); err != nil {
		return fmt.Errorf("the sandbox keeps its limit of %d MiB until it is started again: %w", b.MemoryLimit()>>20, err)
	}
	b.memory.Store(limits.MemoryBytes)
	return nil
}
