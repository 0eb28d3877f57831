package sandbox_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// copyTree copies a folder with all attributes.
func copyTree(from, to string) ([]byte, error) {
	return exec.Command("cp", "-a", from, to).CombinedOutput()
}
