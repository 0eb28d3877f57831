package storage

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/host/records"
)

// keepSpares is how many empty layers lie ready: a fork of the present state takes two.
const keepSpares = 2

// spares are empty layers that are in their place, with durable names, before anybody asks for one: waiting for the disk
// is most of what making one takes. Host.db does not know them, so that those of a host that was killed go at the next start.
type spares struct {
	mu     boltfile.Lock // guards the fields below
	keep   int
	ready  []records.Layer
	making bool
}

// takeEmpty returns an empty layer on top of a frozen one, or of the base.
func (ls *Store) takeEmpty(d layer.Driver, parent string) (l records.Layer, err error) {
	ls.spares.mu.Lock()
	if n := len(ls.spares.ready); n > 0 {
		l, ls.spares.ready = ls.spares.ready[n-1], ls.spares.ready[:n-1]
	}
	few := !ls.spares.making && len(ls.spares.ready) < ls.spares.keep && ls.Context.Err() == nil
	ls.spares.making = ls.spares.making || few
	ls.spares.mu.Unlock()
	if few {
		ls.Chores.Go(func() { ls.refillSpares(d) })
	}
	if l.ID == "" {
		return ls.buildIn(d, parent, ls.makeEmpty(d), ls.Step)
	}
	l.Parent = parent
	return l, nil
}

func (ls *Store) makeEmpty(d layer.Driver) func(dir string) error {
	return func(dir string) error {
		uid, gid := ls.confiner.RootOwner()
		return d.Make(dir, uid, gid)
	}
}

// refillSpares makes empty layers until there are enough.
func (ls *Store) refillSpares(d layer.Driver) {
	for {
		var l records.Layer
		err := ls.Context.Err()
		if err == nil {
			l, err = ls.buildIn(d, "", ls.makeEmpty(d), func(string) {})
		}
		ls.spares.mu.Lock()
		if err == nil {
			ls.spares.ready = append(ls.spares.ready, l)
		}
		done := err != nil || len(ls.spares.ready) >= ls.spares.keep
		ls.spares.making = !done
		ls.spares.mu.Unlock()
		if err != nil && ls.Context.Err() == nil {
			ls.Config.Log.Debug().Err(err).Msg("make empty layers ahead of time") // the next call makes its own, or says why not
		}
		if done {
			return
		}
	}
}

// IsSpare reports whether a layer lies ready to be taken.
func (ls *Store) IsSpare(id string) bool {
	ls.spares.mu.Lock()
	defer ls.spares.mu.Unlock()
	return slices.ContainsFunc(ls.spares.ready, func(l records.Layer) bool { return l.ID == id })
}

// SetSpares changes how many empty layers lie ready.
func (ls *Store) SetSpares(n int) {
	ls.spares.mu.Lock()
	defer ls.spares.mu.Unlock()
	ls.spares.keep = n
}
