package leader

import (
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
	// What a skill prints for people is no reason to fail its call: a full disk loses log lines, not the run.
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return len(p), nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size()+int64(len(p)) > maxLog {
		return len(p), nil
	}
	_, _ = f.Write(p)
	c.wrote()
	return len(p), nil
}
