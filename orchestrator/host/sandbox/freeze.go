package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// errRan says that a process ran although the box was frozen.
var errRan = errors.New("a process of the sandbox went on although it was held")

// thawTimeout bounds how long a box may take to go on.
const thawTimeout = 10 * time.Second

// Freeze makes all processes of the box stand still until thaw is called; both may be called again, and of several who freeze
// the last one thaws. Until then commands do not start, and other calls wait for the thaw or the end
// of its context. Processes that were stopped before stay so. A box that ends is thawed.
//
// Where this process may make control groups, the kernel holds them, which none of them can do anything about. Elsewhere
// init sends SIGSTOP and looks until nothing has run between two looks, so programs that wake one another come to a rest,
// too. A program can then still have the kernel wake it, such as by a timer whose signal is SIGCONT: thaw returns an error,
// and work that relied on the freeze is invalid. On systems other than Linux only the process
// groups of commands are stopped, and nothing is known of the rest.
func (b *Box) Freeze(ctx context.Context) (thaw func() error, err error) {
	b.holding.Lock()
	defer b.holding.Unlock()
	if b.held == 0 {
		if err := freezeBox(ctx, b); err != nil {
			return nil, fmt.Errorf("hold the processes of the sandbox: %w", err)
		}
		b.mu.Lock()
		b.awake = make(chan struct{})
		b.mu.Unlock()
	}
	b.held++
	return sync.OnceValue(b.thawProcesses), nil
}

func freezeBox(ctx context.Context, b *Box) error {
	select {
	case <-b.done:
		return b.deathError()
	default:
	}
	if group, ok := b.group.Freezer(); ok {
		err := group.Freeze(ctx, b.done)
		if errors.Is(err, cgroup.ErrGroupGone) {
			err = b.deathError()
		}
		return err
	}
	_, err := b.askInit(ctx, "box.freeze", nil, nil, nil)
	if err != nil {
		_ = thawBox(b) // init may have frozen the box all the same; the first error is the better reason
	}
	return err
}

func (b *Box) thawProcesses() error {
	b.holding.Lock()
	defer b.holding.Unlock()
	if b.held--; b.held > 0 {
		return nil
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.awake)
		b.awake = nil
	}()
	err := thawBox(b)
	if errors.Is(err, spec.ErrDied) {
		return nil
	}
	return err
}

// thawBox lets processes go on. It does not depend on the caller's patience: they must not stand still for ever.
func thawBox(b *Box) error {
	if group, ok := b.group.Freezer(); ok {
		return group.Thaw()
	}
	ctx, cancel := context.WithTimeout(context.Background(), thawTimeout)
	defer cancel()
	var ran bool
	if _, err := b.askInit(ctx, "box.thaw", nil, nil, &ran); err != nil {
		return fmt.Errorf("let the processes of the sandbox go on: %w", err)
	}
	if ran {
		return errRan
	}
	return nil
}
