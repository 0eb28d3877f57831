package sandbox

// Held counts the entries that processes hold in tables that the kernel shares between the processes of a user, or of the machine.
type Held struct {
	Files   uint64 // descriptors; those of open files that are shared count for each
	Entries uint64 // of epoll instances
}

// Processes looks at the processes of a box from outside.
type Processes struct {
	init   int // its process id on the host
	plain  bool
	keeper keeper
}

// keeper is the process that init has started itself, to keep root; see Config.LoneRoot. The zero keeper is none.
type keeper struct {
	pid   int    // on the host
	began string // when it started, as the kernel has it: numbers are used again
}

// Processes returns the processes of the box.
func (b *Box) Processes() Processes { return Processes{b.cmd.Process.Pid, b.cfg.Plain(), b.keeper} }
