package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Idle reports whether nothing but init runs in the box, so that nothing can be writing to its files. Processes that a
// command left behind are init's children then. It is false where that cannot be told, and of a plain box. New commands
// are the caller's to keep out.
func (p Processes) Idle() bool {
	if p.plain {
		return false
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.init))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, path := range threads {
		children, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) || len(bytes.TrimSpace(children)) > 0 {
			return false
		}
	}
	return true
}
