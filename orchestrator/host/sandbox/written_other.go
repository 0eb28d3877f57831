//go:build !linux

package sandbox

// Written is unknown on this system.
func (Processes) Written() (total uint64) { return 0 }
