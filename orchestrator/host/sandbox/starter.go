package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Starter starts the boxes of a host. After the first it keeps one init ready, so that most of the work of a start is done
// before the next request. The zero value is ready; Close ends it.
//
// The spare init is a process of its own, in namespaces and control groups that become the next box's. It has heard nothing
// of any sprite, and nothing of a sprite ever ran where it is: it is no more than a start that has paused. A box of another
// kind (level, network, defences) does without it, limits are set when it gets its box, and one that has ended, or from
// before this machine's mounts changed, is not used. It ends with Close, with the host process, when it is seen that mounts
// have changed, so that it keeps no disk from being let go, or when no box was requested in spareFor.
type Starter struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	next   *spare // nil before the first box
	work   sync.WaitGroup
}

// spareFor is how long an init waits for a box.
const spareFor = 5 * time.Minute

// spareLook is how often it is seen to whether mounts have changed.
const spareLook = time.Second

// spareAfter is the time between a start and the making of the next init: the command of the box goes first.
const spareAfter = 100 * time.Millisecond

// spare is one init being made, kept and handed over by a goroutine of its own.
type spare struct {
	kind   spec.Kind
	begun  bool          // it is being made, or there; guarded by Starter.mu
	offer  chan *kept    // gives it to the first who asks; closed when it is gone
	cancel func()        // no box will need it
	gone   chan struct{} // closed with offer
}

// kept is an init that waits for its box, with a record of the machine's mounts, which may change while it waits.
type kept struct {
	*bareInit
	mounts mountWatch
}

// Start is [Start], sooner.
func (s *Starter) Start(cfg spec.Config) (*Box, error) {
	cfg, err := cfg.Check()
	if err != nil {
		return nil, err
	}
	kind := cfg.Kind()
	if len(cfg.Without) > 0 || cfg.Plain() {
		return Start(cfg)
	}
	if ready := s.takeSpare(kind); ready != nil {
		box, err := ready.makeBox(cfg)
		if err == nil {
			s.prepareSpare(kind)
			return box, nil
		}
		// Perhaps only the spare is to blame. The next attempt reports other causes.
	}
	box, err := Start(cfg)
	if err == nil {
		s.prepareSpare(kind)
	}
	return box, err
}

// Close ends the spare init and waits for it. Boxes go on; no further init is made.
func (s *Starter) Close() {
	s.mu.Lock()
	s.closed = true
	if s.next != nil {
		s.next.cancel()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// takeSpare returns the spare init, if there is one of that kind that is fit to be used. One that is just being made is awaited: it
// is further than another would be.
func (s *Starter) takeSpare(k spec.Kind) *bareInit {
	s.mu.Lock()
	next := s.next
	usable := next != nil && next.begun && next.kind == k
	s.mu.Unlock()
	if !usable {
		return nil
	}
	ready := <-next.offer
	<-next.gone // at once; prepare must not take it for one that is there
	if ready == nil {
		return nil
	}
	defer ready.mounts.Close()
	if ready.mounts.hasChanged() { // it may see old mounts, and keep unmounted file systems busy
		_ = ready.discardInit()
		return nil
	}
	return ready.bareInit
}

// prepareSpare has an init made, unless there is one or will soon be.
func (s *Starter) prepareSpare(k spec.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if next := s.next; next != nil {
		select {
		case <-next.gone:
		default:
			if next.kind == k && next.begun {
				return
			}
			next.cancel() // of another kind, or to come later: another box has work to do
		}
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close
	next := &spare{kind: k, offer: make(chan *kept), gone: make(chan struct{}), cancel: cancel}
	s.next = next
	s.work.Go(func() {
		defer cancel()
		defer close(next.gone)
		defer close(next.offer)
		s.keepSpare(ctx, next)
	})
}

// keepSpare makes an init and holds it until it is wanted.
func (s *Starter) keepSpare(ctx context.Context, next *spare) {
	select {
	case <-time.After(spareAfter):
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	next.begun = ctx.Err() == nil
	s.mu.Unlock()
	if !next.begun {
		return
	}
	mounts, err := watchMounts()
	if err != nil {
		return
	}
	init, err := startInit(next.kind)
	if err != nil { // the next start says why
		mounts.Close()
		return
	}
	next.holdInit(ctx, &kept{init, mounts})
}

// holdInit offers an init until it is taken or its time is over.
func (next *spare) holdInit(ctx context.Context, k *kept) {
	idle, look := time.NewTimer(spareFor), time.NewTicker(spareLook)
	defer idle.Stop()
	defer look.Stop()
	for wanted := true; wanted; {
		select {
		case next.offer <- k:
			return
		case <-look.C:
			wanted = !k.mounts.hasChanged()
		case <-idle.C:
			wanted = false
		case <-ctx.Done():
			wanted = false
		}
	}
	k.mounts.Close()
	_ = k.discardInit() // the rest of its groups is removed at the next start of the host
}
