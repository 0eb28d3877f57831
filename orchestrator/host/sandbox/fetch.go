package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// fetchFiles takes the descriptors that init holds for the host. Like those that it sends, they may be anything that init has open.
func (b *Box) fetchFiles(r channel.Reply) (files []*os.File, err error) {
	if len(r.Held) > channel.MaxCallFDs {
		b.refuseHeld(r.ID)
		return nil, fmt.Errorf("take over descriptors: init holds %d: %w", len(r.Held), syscall.EMSGSIZE)
	}
	if b.cfg.Defended(spec.DefenceShares) {
		files, err = takeFrom(b.cmd.Process, r.Held)
	} else {
		err = syscall.ETOOMANYREFS
	}
	if err != nil {
		err = fmt.Errorf("take over descriptors: %w", err)
	}
	if sent := b.sendRequest(channel.Request{Op: channel.OpTaken, ID: r.ID}); err == nil && sent != nil {
		channel.CloseAll(files)
		return nil, sent
	}
	return files, err
}

// refuseHeld has init close held descriptors.
func (b *Box) refuseHeld(id uint64) {
	_ = b.sendRequest(channel.Request{Op: channel.OpTaken, ID: id}) // a box that does not listen ends by this
}

// refuseUnheard is refuseHeld for the reader of init's words, which must not depend on init's reading.
func (b *Box) refuseUnheard(id uint64) {
	b.tasks.Go(func() error {
		b.refuseHeld(id)
		return nil
	})
}
