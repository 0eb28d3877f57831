package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errRan says that what was to stand still did not.
var errRan = errors.New("a process of the sandbox went on although it was held")

// thawTimeout bounds how long a box may take to go on.
const thawTimeout = 10 * time.Second

// Freeze makes all processes of the box stand still, init excepted, until thaw is called; both may be called again, and of
// several who freeze the last one thaws. Commands must not be started meanwhile: they would run. Processes that were
// stopped before stay so. A box that ends is thawed.
//
// Init sends SIGSTOP and looks until nothing has run between two looks, so programs that wake one another come to a
// rest, too. A program can still have the kernel wake it, by a timer whose signal is SIGCONT; thaw then returns an error, and
// what was done in the belief that nothing ran must not be relied upon.
func (b *Box) Freeze(ctx context.Context) (thaw func() error, err error) {
	b.holding.Lock()
	defer b.holding.Unlock()
	if b.held == 0 {
		if _, err := b.call(ctx, "box.freeze", nil, nil, nil); err != nil {
			b.release() // init may have done it all the same
			return nil, fmt.Errorf("hold the processes of the sandbox: %w", err)
		}
	}
	b.held++
	return sync.OnceValue(b.thaw), nil
}

func (b *Box) thaw() error {
	b.holding.Lock()
	defer b.holding.Unlock()
	if b.held--; b.held > 0 {
		return nil
	}
	err := b.release()
	if errors.Is(err, ErrDied) {
		return nil
	}
	return err
}

// release lets processes go on. It does not depend on the caller's patience: they must not stand still for ever.
func (b *Box) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), thawTimeout)
	defer cancel()
	var moved bool
	if _, err := b.call(ctx, "box.thaw", nil, nil, &moved); err != nil {
		return fmt.Errorf("let the processes of the sandbox go on: %w", err)
	}
	if moved {
		return errRan
	}
	return nil
}

// boxCall is what init does to the whole box.
func (s *server) boxCall(ctx context.Context, name string, _ json.RawMessage) (answer any, err error) {
	switch name {
	case "box.freeze":
		return nil, s.still.hold(ctx, s)
	case "box.thaw":
		return s.still.release(), nil
	default:
		return nil, unknownCall(name)
	}
}
