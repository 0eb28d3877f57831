package history

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

	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// maxLog bounds a run's log file.
const maxLog = 64 << 20

// Outputs keeps the output of skills that is not an event, in a log file for each run.
type Outputs struct {
	Home     home.Home
	Logger   zerolog.Logger
	Records  *Records
	Watchers interface {
		Notify(run string)
	}
}

// cappedLog appends to a file up to maxLog and drops the rest. It opens the file for each write: a call prints little, and
// runs are many.
type cappedLog struct {
	mu    sync.Mutex
	path  string
	wrote func()
}

func (c *cappedLog) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Output must not fail the call that prints it: a full disk loses log lines, not the run.
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

// Open opens the run's log, which takes the stderr of its skills and stdout that is neither event nor result.
func (o *Outputs) Open(id string) io.Writer {
	path := filepath.Join(o.Home.Run(id), "output.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		o.Logger.Warn().Err(err).Msg("make run directory")
		return io.Discard
	}
	return &cappedLog{path: path, wrote: func() { o.Watchers.Notify(id) }}
}

// Log opens the output log of a run at a byte offset.
func (o *Outputs) Log(_ context.Context, id string, offset int64) (io.ReadCloser, error) {
	id, err := o.Records.Resolve(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(o.Home.Run(id), "output.log"))
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
