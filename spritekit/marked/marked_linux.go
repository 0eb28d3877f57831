package marked

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Kill kills every process that was started with the value of a variable, until none is left. A process that
// changed its session or lost its parent is found as well; one that cleared its environment is not.
func Kill(name, value string) {
	entry := []byte(name + "=" + value + "\x00")
	for range 100 { // they may fork while they are killed
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return
		}
		found := false
		for _, file := range environs {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil || pid == os.Getpid() {
				continue
			}
			data, err := os.ReadFile(file)
			if err == nil && bytes.Contains(data, entry) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				found = true
			}
		}
		if !found {
			return
		}
	}
}
