package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	// stopTimeout bounds the ending of a process: a signal, its grace on the host, and a margin.
	stopTimeout = 15 * time.Second
	// maxAttach is how often a process whose stream breaks again and again is followed.
	maxAttach = 3
)

// processes lists what runs of a call's skill in its sprite. A sprite belongs to one run, whose calls there are
// serialised: it is the call's own process, whichever connection started it.
func (s *Session) processes(ctx context.Context, c lattice.Call) ([]string, error) {
	all, err := s.host.Sessions(ctx, c.Sprite)
	if err != nil {
		return nil, final(fmt.Errorf("look for %s in sprite %s: %w", c.Skill, c.Sprite, err), "the sprite was removed")
	}
	var ids []string
	for _, p := range all {
		if path.Base(p.Command) == c.Skill && !p.TTY {
			ids = append(ids, p.ID)
		}
	}
	return ids, nil
}

// stop ends the process of a call that nobody follows any more: closing its stream alone would leave it running. It
// works when ctx has ended, too. A host that cannot be asked ends the process itself, later.
func (s *Session) stop(ctx context.Context, c lattice.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	ids, err := s.processes(ctx, c)
	for _, id := range ids {
		err = errors.Join(err, s.kill(ctx, c, id))
	}
	if err != nil {
		s.log.Warn().Str("run", c.RunID).Str("call", c.ID).Err(err).Msg("stop a skill")
	}
}

func (s *Session) kill(ctx context.Context, c lattice.Call, id string) error {
	if err := s.host.Kill(ctx, c.Sprite, id, "TERM"); err != nil && !errors.Is(err, sprites.ErrNotFound) {
		return fmt.Errorf("stop %s in sprite %s: %w", c.Skill, c.Sprite, err)
	}
	return nil
}

// settle waits for the end of a call's process whose stream was lost, so that the outbox has the last word. What can
// simply be done again is stopped instead, and so is a process of which nothing was heard: it may wait for an input
// that was lost on the way.
func (s *Session) settle(ctx context.Context, c lattice.Call, heard bool) error {
	bounded, cancel := deadline(ctx, c)
	defer cancel()
	for range maxAttach {
		ids, err := s.processes(ctx, c)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if c.Class == manifests.ClassRead || !heard || bounded.Err() != nil {
				if err := s.kill(ctx, c, id); err != nil {
					return err
				}
				continue
			}
			// Whether it ended, was gone or was lost again, the next listing tells.
			_ = s.follow(bounded, c, id)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// follow waits for a process to end. Its stdin is left open: an end would make half an input look whole.
func (s *Session) follow(ctx context.Context, c lattice.Call, id string) error {
	stdin, open := io.Pipe()
	defer open.CloseWithError(io.ErrClosedPipe)
	_, err := s.host.Attach(ctx, c.Sprite, id, sprites.Exec{Stdin: stdin})
	return err
}
