package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rs/zerolog"
)

// maxLog bounds a run's log file.
const maxLog = 64 << 20

// outputs keeps what skills print besides events, a log file for each run.
type outputs struct {
	home     Home
	log      zerolog.Logger
	records  *records
	watchers interface {
		notify(run string)
	}
}

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

// open opens the run's log, to which its skills' stderr and stray stdout go.
func (o *outputs) open(id string) io.Writer {
	path := filepath.Join(o.home.Run(id), "output.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		o.log.Warn().Err(err).Msg("make run directory")
		return io.Discard
	}
	return &cappedLog{path: path, wrote: func() { o.watchers.notify(id) }}
}

// Log opens what the run's skills printed beside events, from a byte offset on.
func (o *outputs) Log(_ context.Context, id string, offset int64) (io.ReadCloser, error) {
	id, err := o.records.resolve(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(o.home.Run(id), "output.log"))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run log: %w", err)
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("read run log: %w", err), f.Close())
	}
	return f, nil
}
