//go:build !linux

package gitdir

import "os"

// syncFileSystem does nothing: there is no system call for it.
func syncFileSystem(*os.File) error { return nil }
