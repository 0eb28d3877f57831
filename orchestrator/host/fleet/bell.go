package fleet

import (
	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// bell rings for those inside a sprite's gate while somebody waits to pass it alone.
type bell struct {
	mu      boltfile.Lock // guards the fields below
	waiting int
	sound   chan struct{} // closed while it rings; nil when rung was not called since it last did
}

// ring lasts until quiet.
func (b *bell) ring() (quiet func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sound == nil {
		b.sound = make(chan struct{})
	}
	if b.waiting++; b.waiting == 1 {
		close(b.sound)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.waiting--; b.waiting == 0 {
			b.sound = nil
		}
	}
}

// rung is closed when the bell rings, now or later.
func (b *bell) rung() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sound == nil {
		b.sound = make(chan struct{})
	}
	return b.sound
}
