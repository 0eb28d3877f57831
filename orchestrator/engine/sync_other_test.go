//go:build !linux

package engine_test

import "os"

// syncData is how a store's commit ends.
func syncData(f *os.File) error { return f.Sync() }
