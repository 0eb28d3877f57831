package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The kernel counts the descriptors that are on their way through sockets by user, and refuses more than a limit of who
// sends: all boxes of a host are one user, and what runs in one of them can keep as many on their way as it may. Then init
// holds what it would have sent, names its numbers, and the host takes copies out of init's own table (pidfd_getfd), where
// nothing is on its way. The host's own way to init is kept open by a lower limit of everything in boxes; see limitSelf.

// hand sends a reply with descriptors, which stay the caller's. held reports that init must keep them open until the host
// has taken them.
func (c *channel) hand(r reply, files ...*os.File) (held bool, err error) {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	err = c.send(r, fds...)
	if !errors.Is(err, syscall.ETOOMANYREFS) {
		return false, err
	}
	r.Held = fds
	return true, c.send(r)
}

// handAlone is hand where nothing else is said meanwhile: it returns when the host has them.
func (c *channel) handAlone(r reply, files ...*os.File) error {
	held, err := c.hand(r, files...)
	if err != nil || !held {
		return err
	}
	var answer request
	received, err := c.recv(&answer)
	closeAll(received)
	if err == nil && answer.Op != opTaken {
		err = fmt.Errorf("hand over descriptors: the host answers %q", answer.Op)
	}
	return err
}

// hold keeps files until the host has taken what it was told of under id.
func (s *server) hold(id uint64, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = files
}

// release closes what was held under id.
func (s *server) release(id uint64) {
	s.mu.Lock()
	files := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	closeAll(files)
}

// fetch takes what init holds for the host. Like what it sends, it may be anything that init has open.
func (b *Box) fetch(r reply) (files []*os.File, err error) {
	if len(r.Held) > maxCallFDs {
		b.refuseHeld(r.ID)
		return nil, fmt.Errorf("take over descriptors: init holds %d: %w", len(r.Held), syscall.EMSGSIZE)
	}
	if b.cfg.defended(DefenceShares) {
		files, err = takeFrom(b.cmd.Process, r.Held)
	} else {
		err = syscall.ETOOMANYREFS
	}
	if err != nil {
		err = fmt.Errorf("take over descriptors: %w", err)
	}
	if sent := b.send(request{Op: opTaken, ID: r.ID}); err == nil && sent != nil {
		closeAll(files)
		return nil, sent
	}
	return files, err
}

// refuseHeld has init close what nobody wants.
func (b *Box) refuseHeld(id uint64) {
	_ = b.send(request{Op: opTaken, ID: id}) // a box that does not listen ends by this
}

// refuseUnheard is refuseHeld for the reader of init's words, which must not depend on init's reading.
func (b *Box) refuseUnheard(id uint64) {
	b.tasks.Go(func() error {
		b.refuseHeld(id)
		return nil
	})
}
