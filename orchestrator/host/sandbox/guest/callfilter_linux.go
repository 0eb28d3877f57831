//go:build !amd64

package guest

import (
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/callfilter"
)

// callFilter is the filter of system calls, and the architecture that it is for.
func callFilter() (native uint32, program []unix.SockFilter, err error) {
	if native, err = callfilter.Native(); err == nil {
		program, err = callfilter.Program()
	}
	return native, program, err
}
