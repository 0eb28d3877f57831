//go:build !linux

package procfs

import (
	"syscall"
)

// EndSessions kills the process groups of a box whose init was killed.
func EndSessions(leaders map[int]bool) {
	for pid := range leaders {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}
