package relay

import (
	"os"

	"golang.org/x/sys/unix"
)

// watchFolder returns a channel that receives a value after a file in dir was created or written (inotify), and a function that
// stops it. The channel is nil if inotify is not available.
func watchFolder(dir string) (changed <-chan struct{}, end func()) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, func() {}
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		f.Close()
		return nil, func() {}
	}
	c, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096) // the content of the events is not needed
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return c, func() {
		f.Close()
		<-done
	}
}
