//go:build !linux

package objects

import "errors"

// canSyncFileSystem: no other system waits until all files are on disk; each is synced by itself.
const canSyncFileSystem = false

func syncFileSystem(string) error { return errors.ErrUnsupported }
