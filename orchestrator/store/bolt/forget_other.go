//go:build !linux

package bolt

// dropCache does nothing: this system has no way to drop the page cache of a file.
func dropCache(string) {}
