package channel

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The kernel counts the descriptors that are on their way through sockets by user, and refuses more than a limit of who
// sends: all boxes of a host are one user, and the programs of one of them can keep as many on their way as the limit allows. Then init
// holds the descriptors that it would have sent, names its numbers, and the host takes copies out of init's own table (pidfd_getfd), where
// nothing is on its way. The host's own way to init is kept open by a lower limit of everything in boxes; see limitSelf.

// Hand sends a reply with descriptors, which stay the caller's. held reports that init must keep them open until the host
// has taken them.
func (c *Socket) Hand(r Reply, files ...*os.File) (held bool, err error) {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	err = c.Send(r, fds...)
	if !errors.Is(err, syscall.ETOOMANYREFS) {
		return false, err
	}
	r.Held = fds
	return true, c.Send(r)
}

// HandAlone is Hand before other messages are exchanged: it returns when the host has them.
func (c *Socket) HandAlone(r Reply, files ...*os.File) error {
	held, err := c.Hand(r, files...)
	if err != nil || !held {
		return err
	}
	var answer Request
	received, err := c.Receive(&answer)
	CloseAll(received)
	if err == nil && answer.Op != OpTaken {
		err = fmt.Errorf("hand over descriptors: the host answers %q", answer.Op)
	}
	return err
}
