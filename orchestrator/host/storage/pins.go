package storage

import (
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/records"
)

// pins counts the running boxes that have a layer mounted. Its lock is a leaf: nothing is called while it is held, so that
// transactions that write may ask.
type pins struct {
	mu    sync.Mutex // guards boxes
	boxes map[string]int
}

// has reports whether a running box has the layer mounted.
func (p *pins) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boxes[id] > 0
}

// add counts one more box with these layers.
func (p *pins) add(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.boxes[id]++
	}
}

// drop counts one box less, and returns the layers that no box has mounted any more.
func (p *pins) drop(ids []string) (free []string) {
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

// Pin marks the layers that a box is about to mount, so that they stay until unpin even when nothing else needs them.
func (ls *Store) Pin(chain []records.Layer) []string {
	var ids []string
	for _, l := range chain {
		ids = append(ids, l.ID)
	}
	ls.mounted.add(ids)
	return ids
}

func (ls *Store) Unpin(ids []string) {
	var unused []string
	for _, id := range ls.mounted.drop(ids) {
		if l, err := ls.Store.Layer(id); err == nil && l.Refs == 0 {
			unused = append(unused, id)
		}
	}
	if len(unused) == 0 {
		return
	}
	garbage, err := ls.Store.ForgetUnused(unused, ls.mounted.has)
	if err != nil {
		ls.Config.Log.Warn().Err(err).Msg("forget layers that nothing needs")
	}
	ls.Discard(garbage...)
}

// IsMounted reports whether a running box has the layer mounted. Transactions that write may ask.
func (ls *Store) IsMounted(id string) bool { return ls.mounted.has(id) }
