package fleet

import (
	"errors"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
)

// guardEvery is how often the guard looks at the disk. The kernel does not notify of a disk that gets full.
const guardEvery = time.Second

// errFilled ends sprites that fill the disk.
var errFilled = errors.New("the disk that holds the sprites is nearly full, and this sprite wrote the most; its files are kept: remove some, or free space otherwise")

// DiskGuard ends sprites before they have filled the host's disk: refusing new work ([core.Core.CheckSpace]) does not
// stop running sprites.
type DiskGuard struct {
	Fleet   *Fleet
	Room    func() (core.Space, error)
	left    core.Space        // when it looked last
	Written map[string]uint64 // by sprite, until then
}

// guardDisk works until the host closes.
func (fl *Fleet) guardDisk() {
	g := &DiskGuard{Fleet: fl, Room: func() (core.Space, error) { return core.FreeSpace(fl.Config.Dir) }}
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.Look()
		case <-fl.Context.Done():
			return
		}
	}
}

// Look ends the sprite that wrote the most since the last look if only a quarter of the reserve is left, and it gets
// less. It returns the names of those that it ended.
func (g *DiskGuard) Look() (ended []string) {
	fl := g.Fleet
	left, err := g.Room()
	if err != nil {
		return nil // calls that need space fail with the same error
	}
	urgent := left.Urgent(fl.Config.Reserve) && left.Less(g.left)
	g.left = left
	if !urgent && !left.Nearly(fl.Config.Reserve) {
		g.Written = nil // only then does it matter who writes
		return nil
	}
	written, running := map[string]uint64{}, map[string]*Sprite{}
	for _, s := range fl.Running() {
		if box := s.Present(); box != nil {
			written[s.Name], running[s.Name] = box.Processes().Written(), s
		}
	}
	names := findFillers(g.Written, written)
	g.Written = written
	if !urgent {
		return nil
	}
	for _, name := range names {
		fl.Config.Log.Error().Str("sprite", name).Uint64("free_mib", left.Bytes>>20).Msg("sprite ended, because it fills the disk")
		if box := running[name].Present(); box != nil {
			if err := box.StopFor(errFilled); err != nil {
				fl.Config.Log.Warn().Err(err).Str("sprite", name).Msg("end a sprite that fills the disk")
			}
		}
		ended = append(ended, name)
	}
	return ended
}

// findFillers names the sprites that wrote the most since before; all of them where writes are not counted.
func findFillers(before, now map[string]uint64) (names []string) {
	var most uint64
	for name, n := range now {
		wrote := n - min(n, before[name])
		switch {
		case wrote > most:
			most, names = wrote, []string{name}
		case wrote == most:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
