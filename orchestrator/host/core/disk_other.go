//go:build !linux

package core

// Disk is "": whether the machine or its disk was restarted cannot be told here.
func (c *Core) Disk() string { return "" }
