package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
)

// Written is how many bytes all processes of the box have written to disks so far, as far as the kernel tells: not to file
// systems in memory. Writes of processes that have ended count for the process that waited for them, init at last.
func (p Processes) Written() (total uint64) {
	for _, pid := range append(procfs.Descendants(p.init), p.init) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(stat, []byte("\nwrite_bytes: "))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		n, _ := strconv.ParseUint(string(line), 10, 64)
		total += n
	}
	return total
}
