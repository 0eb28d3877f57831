//go:build !linux

package agent

// watch knows of no way to be told here.
func watch(string) (changed <-chan struct{}, end func()) { return nil, func() {} }
