package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// watch returns a channel that gets a value when a file in dir was made or written, and a function that ends that. The
// channel is nil when the system cannot tell.
func watch(dir string) (changed <-chan struct{}, end func()) {
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
		buf := make([]byte, 4096) // what happened does not matter
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
