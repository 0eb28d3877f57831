package objects

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const canSyncFileSystem = true

// syncFileSystem makes everything durable that was written where dir lies.
func syncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
