// Package durable makes changes in folders survive a loss of power. Start with SyncDir: the creation, renaming or removal of a
// file is durable only after its folder was synced.
package durable

import (
	"fmt"
	"os"
)

// SyncDir syncs a folder: when it returns, the present names in dir are on the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close() // a read-only descriptor
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
