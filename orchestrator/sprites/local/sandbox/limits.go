package sandbox

// Limits bound what a box may use. 0 is the default; what cannot be enforced here is not an error, Box.Enforced tells.
type Limits struct {
	Pids        int     `json:"pids,omitempty"`         // processes and threads
	MemoryBytes int64   `json:"memory_bytes,omitempty"` // memory of all processes together, with the box's memory file systems
	CPUs        float64 `json:"cpus,omitempty"`         // processors' worth of time
	TmpBytes    int64   `json:"tmp_bytes,omitempty"`    // each memory file system: /run, /dev/shm
}
