package leader

import (
	"fmt"
	"os"
	"sync"
)

// cappedLog appends to a file up to maxLog and drops the rest. It holds no file open between writes: a call prints
// little, and runs are many.
type cappedLog struct {
	mu    sync.Mutex
	path  string
	wrote func()
}

func (c *cappedLog) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("write run log: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size()+int64(len(p)) > maxLog {
		return len(p), nil
	}
	// What a skill prints for people is no reason to fail its call: a full disk loses log lines, not the run.
	_, _ = f.Write(p)
	c.wrote()
	return len(p), nil
}
