//go:build !linux

package store

// dropCache does nothing: this system has no way to drop the page cache of a file.
func dropCache(string) {}
