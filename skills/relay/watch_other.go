//go:build !linux

package relay

// watchFolder returns no channel: there is no inotify here.
func watchFolder(string) (changed <-chan struct{}, end func()) { return nil, func() {} }
