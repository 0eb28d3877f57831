package skill

import (
	"sync"
	"time"
)

// heldBack is the longest delay of PHASE_STARTED.
const heldBack = 5 * time.Millisecond

// holding is the set of calls at a desk whose PHASE_STARTED is delayed. One timer serves all of them and is never stopped,
// so that it may fire without effect or a little early for the next call: stopping and starting a timer for each call
// would wake a thread each time.
type holding struct {
	mu    sync.Mutex // guards the fields below
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
		h.timer = time.AfterFunc(heldBack, h.releaseAll)
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

// releaseAll emits all delayed events. A call cannot end while its event is being emitted.
func (h *holding) releaseAll() {
	h.mu.Lock()
	late := h.calls
	h.calls, h.armed = nil, false
	h.mu.Unlock()
	for o := range late {
		o.releaseOutbox()
	}
}

// close stops the timer. All calls must have ended.
func (h *holding) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}
