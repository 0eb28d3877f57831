//go:build !linux

package native

import "os"

// syncFileSystem does nothing: there is no system call for it.
func syncFileSystem(*os.File) error { return nil }
