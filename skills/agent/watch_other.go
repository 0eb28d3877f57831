//go:build !linux

package agent

// watchFolder returns no channel: there is no inotify here.
func watchFolder(string) (changed <-chan struct{}, end func()) { return nil, func() {} }
