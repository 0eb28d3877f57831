// Package durable makes changes in folders survive a loss of power. Start with SyncDir: a file that was made, renamed or
// removed is so for good only when its folder has been synced, too. It never decides what is worth that.
package durable

import (
	"fmt"
	"os"
)

// SyncDir returns when all names in dir are on the disk as they are now.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close() // nothing was written through it
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
