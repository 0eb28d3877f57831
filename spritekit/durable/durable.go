// Package durable makes changes in folders survive a loss of power. Start with [SyncDir]: the creation, renaming or removal
// of a file is durable only after its folder was synced.
package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// SyncDir syncs a folder: when it returns, the present names in dir are on the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return CloseDir(d)
}

// CloseDir syncs and closes an open folder. Some file systems that keep nothing, such as the /dev of a sandbox, cannot be
// synced; that is not an error.
func CloseDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
