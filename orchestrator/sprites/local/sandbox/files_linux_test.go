package sandbox_test

import (
	"os"
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
