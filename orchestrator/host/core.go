package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// core is what all parts of a host share: its configuration, its database, its clocks, and the two groups of goroutines
// that Close waits for.
type core struct {
	cfg   Config
	store *store
	now   func() time.Time // for what is told and kept; may be set forward and back
	clock func() time.Time // for what is waited for; is not
	step  func(string)     // called after each durable step, for tests that stop there
	// pingEvery is how often clients that only listen are asked whether they are there.
	pingEvery time.Duration

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	chores sync.WaitGroup // background work that ends by itself
	guards sync.WaitGroup // and such that goes on until Close
}

func (c *core) tmpDir() string            { return filepath.Join(c.cfg.Dir, "tmp") }
func (c *core) runDir(id string) string   { return filepath.Join(c.cfg.Dir, "run", id) }
func (c *core) cacheDir(id string) string { return filepath.Join(c.cfg.Dir, "cache", id) }

// trash moves a directory out of sight and removes it in the background.
func (c *core) trash(dir string) error {
	to := filepath.Join(c.cfg.Dir, "trash", ulid.Make().String())
	switch err := os.Rename(dir, to); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		to = dir // nothing refers to it, and its space is needed
	case err != nil:
		return err
	}
	c.chores.Go(func() {
		if err := removeAll(to); err != nil {
			c.cfg.Log.Warn().Err(err).Str("dir", to).Msg("empty the trash")
		}
	})
	return nil
}

func removeAll(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// Whatever a driver made, this can remove: the one that knows most does it.
	d, err := layer.Open(layer.Btrfs)
	if err != nil {
		return err
	}
	return d.Remove(dir)
}

// logPath is the file of a service's log, on the host.
func (c *core) logPath(sprite, service string) string {
	return filepath.Join(c.runDir(sprite), "logs", "services", service+".log")
}

func (c *core) warnUnlessClosed(err error) {
	if err != nil && c.ctx.Err() == nil {
		c.cfg.Log.Warn().Err(err).Msg("look after a new checkpoint")
	}
}

// bootID names the present run of the system, "" where that cannot be told.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // "" then: nothing counts as torn
	return string(id)
}
