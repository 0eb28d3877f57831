//go:build !linux

package host

// Disk is "": whether the machine or its disk was restarted cannot be told here.
func (c *core) Disk() string { return "" }
