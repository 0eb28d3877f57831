package engine_test

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData is how a store's commit ends.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
