package storage

import (
	"sync"
)

// pins counts the running boxes that have a layer mounted. Its lock is a leaf: nothing is called while it is held, so that
// transactions that write may ask.
type pins struct {
	mu    sync.Mutex // guards boxes
	boxes map[string]int
}

// isPinned reports whether a running box has the layer mounted.
func (p *pins) isPinned(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boxes[id] > 0
}

// addPins counts one more box with these layers.
func (p *pins) addPins(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.boxes[id]++
	}
}

// dropPins counts one box less, and returns the layers that no box has mounted any more.
func (p *pins) dropPins(ids []string) (free []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if p.boxes[id]--; p.boxes[id] == 0 {
			delete(p.boxes, id)
			free = append(free, id)
		}
	}
	return free
}
