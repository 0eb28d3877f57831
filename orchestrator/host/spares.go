package host

import (
	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
)

// keepSpares is how many empty layers lie ready: a fork of the present state takes two.
const keepSpares = 2

// spares are empty layers that are in their place, with durable names, before anybody asks for one: waiting for the disk
// is most of what making one takes. Host.db does not know them, so that those of a host that was killed go at the next start.
type spares struct {
	mu     boltfile.Lock // guards the fields below
	keep   int
	ready  []layerRecord
	making bool
}

// empty returns an empty layer on top of a frozen one, or of the base.
func (h *Host) empty(d layer.Driver, parent string) (l layerRecord, err error) {
	h.spares.mu.Lock()
	if n := len(h.spares.ready); n > 0 {
		l, h.spares.ready = h.spares.ready[n-1], h.spares.ready[:n-1]
	}
	few := !h.spares.making && len(h.spares.ready) < h.spares.keep && h.ctx.Err() == nil
	h.spares.making = h.spares.making || few
	h.spares.mu.Unlock()
	if few {
		h.chores.Go(func() { h.refill(d) })
	}
	if l.ID == "" {
		return h.buildIn(d, parent, h.emptied(d), h.step)
	}
	l.Parent = parent
	return l, nil
}

func (h *Host) emptied(d layer.Driver) func(dir string) error {
	return func(dir string) error {
		uid, gid := h.rootOwner()
		return d.Make(dir, uid, gid)
	}
}

// refill makes empty layers until there are enough.
func (h *Host) refill(d layer.Driver) {
	for {
		var l layerRecord
		err := h.ctx.Err()
		if err == nil {
			l, err = h.buildIn(d, "", h.emptied(d), func(string) {})
		}
		h.spares.mu.Lock()
		if err == nil {
			h.spares.ready = append(h.spares.ready, l)
		}
		done := err != nil || len(h.spares.ready) >= h.spares.keep
		h.spares.making = !done
		h.spares.mu.Unlock()
		if err != nil && h.ctx.Err() == nil {
			h.cfg.Log.Debug().Err(err).Msg("make empty layers ahead of time") // the next call makes its own, or says why not
		}
		if done {
			return
		}
	}
}

// spare reports whether a layer lies ready to be taken.
func (h *Host) spare(id string) bool {
	h.spares.mu.Lock()
	defer h.spares.mu.Unlock()
	for _, l := range h.spares.ready {
		if l.ID == id {
			return true
		}
	}
	return false
}
