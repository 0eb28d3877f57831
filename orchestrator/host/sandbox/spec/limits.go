package spec

// Limits bound what a box may use. 0 is the default. A limit that this machine cannot enforce is not an error; Enforced of a box names those that
// hold.
type Limits struct {
	Pids        int     `json:"pids,omitempty"`         // processes and threads
	MemoryBytes int64   `json:"memory_bytes,omitempty"` // memory of all processes together, with the box's memory file systems
	CPUs        float64 `json:"cpus,omitempty"`         // processors' worth of time; by default as much as others leave
	TmpBytes    int64   `json:"tmp_bytes,omitempty"`    // each memory file system: /run, /dev/shm
}

// Limits of a box without limits of its own.
const (
	defaultPids = 4096
	defaultTmp  = 256 << 20 // bytes of each memory file system
	DevSize     = 1 << 20   // bytes of /dev, which is sealed when it is complete
)

// OrDefaults fills in missing limits, on a machine with so much memory: a box may have three quarters of it, so that the
// host stays with its wits.
func (l Limits) OrDefaults(machine int64) Limits {
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
	By    string  `json:"by,omitempty"`  // "cgroup", "rlimit", "pidns" or "tmpfs"; "" when nothing keeps it here
	Why   string  `json:"why,omitempty"` // why nothing does, and the remedy
}

// Of is how a limit is kept by boxes like the one that told e, but with limits l.
func (e Enforcement) Of(l Limits) Enforcement {
	l = l.OrDefaults(MachineMemory())
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
