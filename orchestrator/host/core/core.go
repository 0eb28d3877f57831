// Package core is shared by all parts of a host: its configuration, its database, its clocks, and the groups of goroutines
// that end with it.
package core

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
	"github.com/spritekit/lattice/orchestrator/host/records"
)

// Core holds the state that all parts of a host share: its configuration, its database, its clocks, and the two groups of goroutines
// that Close waits for.
type Core struct {
	Config Config
	Store  *records.Store
	Now    func() time.Time // for times in answers and records; may be set forward and back
	Clock  func() time.Time // for waiting; is monotonic
	Step   func(string)     // called after each durable step, for tests that stop there
	// PingEvery is how often clients that only listen are asked whether they are there.
	PingEvery time.Duration

	Context context.Context // ends with Close
	Cancel  context.CancelFunc
	Chores  sync.WaitGroup // background work that ends by itself
	Guards  sync.WaitGroup // and such that goes on until Close
}

func (c *Core) TempDir() string           { return filepath.Join(c.Config.Dir, "tmp") }
func (c *Core) RunDir(id string) string   { return filepath.Join(c.Config.Dir, "run", id) }
func (c *Core) CacheDir(id string) string { return filepath.Join(c.Config.Dir, "cache", id) }

// Trash moves a directory out of sight and removes it in the background.
func (c *Core) Trash(dir string) error {
	to := filepath.Join(c.Config.Dir, "trash", ulid.Make().String())
	switch err := os.Rename(dir, to); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		to = dir // nothing refers to it, and its space is needed
	case err != nil:
		return err
	}
	c.Chores.Go(func() {
		if err := RemoveAll(to); err != nil {
			c.Config.Log.Warn().Err(err).Str("dir", to).Msg("empty the trash")
		}
	})
	return nil
}

func RemoveAll(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// The Btrfs driver can remove the folders of every driver.
	d, err := layer.Open(layer.Btrfs)
	if err != nil {
		return err
	}
	return d.Remove(dir)
}

// LogPath is the file of a service's log, on the host.
func (c *Core) LogPath(sprite, service string) string {
	return filepath.Join(c.RunDir(sprite), "logs", "services", service+".log")
}

func (c *Core) WarnUnlessClosing(err error) {
	if err != nil && c.Context.Err() == nil {
		c.Config.Log.Warn().Err(err).Msg("look after a new checkpoint")
	}
}

// BootID names the present run of the system, "" where that cannot be told.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // "" then: nothing counts as torn
	return string(id)
}
