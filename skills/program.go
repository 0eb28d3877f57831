package skills

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spritekit/lattice/skills/proc"
)

// Program runs a program of others to its end, in a process that serves calls, and returns its exit code as a shell has
// it: 128 and the signal's number when a signal ended it. When ctx ends the program is stopped. Spec.Argv may be looked
// up on the PATH of Spec.Env. The error is one of finding or starting it.
func (s *Set) Program(ctx context.Context, spec proc.Spec) (exit int, err error) {
	if spec.Argv, err = proc.Resolve(spec.Argv, spec.Env); err != nil {
		return 0, err
	}
	ended, err := s.reaper.Run(ctx, spec)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return 0, err
	case err != nil && ctx.Err() == nil:
		return 0, fmt.Errorf("run %s: %w", spec.Argv[0], err)
	case err != nil:
		return 128 + int(syscall.SIGINT), nil // ctx had ended: it is stopped before it begins
	case ended.Signal != 0:
		return 128 + int(ended.Signal), nil
	}
	return ended.Code, nil
}
