package skill

import (
	"sync"
	"time"
)

// heldBack is how long the word that a call begins is held back at most.
const heldBack = 5 * time.Millisecond

// holding knows the calls at a desk whose beginning is held back. One timer serves all of them and is left to fire in
// vain, or a little early for the next call: to stop and start one for each call would wake a thread each time.
type holding struct {
	mu    sync.Mutex // guards what follows
	calls map[*output]struct{}
	timer *time.Timer
	armed bool
}

func (h *holding) add(o *output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[*output]struct{}{}
	}
	h.calls[o] = struct{}{}
	switch {
	case h.armed:
	case h.timer == nil:
		h.timer = time.AfterFunc(heldBack, h.lapse)
	default:
		h.timer.Reset(heldBack)
	}
	h.armed = true
}

func (h *holding) remove(o *output) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, o)
}

// lapse lets all that are held go on. A call cannot end before its part of this has.
func (h *holding) lapse() {
	h.mu.Lock()
	late := h.calls
	h.calls, h.armed = nil, false
	h.mu.Unlock()
	for o := range late {
		o.linger()
	}
}

// close is for when no call is under way.
func (h *holding) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}
