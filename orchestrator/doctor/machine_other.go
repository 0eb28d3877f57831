//go:build !linux

package doctor

import (
	"golang.org/x/sys/unix"
)

func fileSystemKind(st unix.Statfs_t) string { return unix.ByteSliceToString(st.Fstypename[:]) }

// hasReflinks is for Linux: elsewhere checkpoints copy.
func hasReflinks(string) bool { return false }

func findOverlay() string { return "not on this system" }

func controlGroups() Check {
	return Check{Name: "cgroup", Status: OK, Detail: "not on this system"}
}
