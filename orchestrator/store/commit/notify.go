package commit

import "sync"

// notifier wakes everybody who waits for the next commit.
type notifier struct {
	mu     sync.Mutex // guards the fields below
	signal chan struct{}
	closed bool
}

// nextChange returns a channel that is closed by the next notify.
func (n *notifier) nextChange() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.signal
}

func (n *notifier) announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		close(n.signal)
		n.signal = make(chan struct{})
	}
}

// close leaves a closed channel, on which no reader waits.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.closed = true
		close(n.signal)
	}
}
