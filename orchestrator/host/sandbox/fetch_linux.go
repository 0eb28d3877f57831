package sandbox

import (
	"errors"
	"os"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"golang.org/x/sys/unix"
)

// takeFrom copies descriptors of another process. It asks for the power to trace that one, which the maker of a user
// namespace has over all in it.
func takeFrom(p *os.Process, numbers []int) (files []*os.File, err error) {
	unavailable := p.WithHandle(func(handle uintptr) {
		for _, n := range numbers {
			var fd int
			if fd, err = unix.PidfdGetfd(int(handle), n, 0); err != nil {
				return
			}
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	})
	if err = errors.Join(err, unavailable); err != nil {
		channel.CloseAll(files)
		return nil, err
	}
	return files, nil
}
