package sandbox

// Held is what processes hold of what the kernel has once: for all of a user's, or for the machine.
type Held struct {
	Files   uint64 // descriptors; those of open files that are shared count for each
	Entries uint64 // of epoll instances
}
