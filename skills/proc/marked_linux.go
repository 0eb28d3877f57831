package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// KillMarked kills every process that has mark in the environment it was started with, until none is left. A process that
// changed its session or lost its parent is found as well; one that cleared its environment is not.
func KillMarked(mark string) {
	entry := []byte(markName + "=" + mark + "\x00")
	for range 100 { // they may fork while they are killed
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return
		}
		found := false
		for _, name := range environs {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil || pid == os.Getpid() {
				continue
			}
			data, err := os.ReadFile(name)
			if err == nil && bytes.Contains(data, entry) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				found = true
			}
		}
		if !found {
			return
		}
	}
}
