package host

import (
	"errors"
	"slices"
	"time"
)

// guardEvery is how often the guard looks at the disk. The kernel tells nobody that a disk gets full.
const guardEvery = time.Second

// errFilled ends sprites that fill the disk.
var errFilled = errors.New("the disk that holds the sprites is nearly full, and this sprite wrote the most; its files are kept: remove some, or free space otherwise")

// diskGuard ends sprites before they have filled the host's disk: what is refused when little is left (checkRoom) does not
// stop what runs already.
type diskGuard struct {
	fleet   *fleet
	room    func() (room, error)
	left    room              // when it looked last
	written map[string]uint64 // by sprite, until then
}

// guardDisk works until the host closes.
func (fl *fleet) guardDisk() {
	g := &diskGuard{fleet: fl, room: func() (room, error) { return roomOf(fl.cfg.Dir) }}
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.look()
		case <-fl.ctx.Done():
			return
		}
	}
}

// look ends the sprite that wrote the most since the last look if a quarter only is left of what is to stay free, and it gets
// less. It returns the names of those that it ended.
func (g *diskGuard) look() (ended []string) {
	fl := g.fleet
	left, err := g.room()
	if err != nil {
		return nil // whoever needs room finds out, too
	}
	urgent := left.urgent(fl.cfg.Reserve) && left.less(g.left)
	g.left = left
	if !urgent && !left.nearly(fl.cfg.Reserve) {
		g.written = nil // only then does it matter who writes
		return nil
	}
	written, running := map[string]uint64{}, map[string]*sprite{}
	for _, s := range fl.running() {
		if box := s.present(); box != nil {
			written[s.name], running[s.name] = box.Written(), s
		}
	}
	names := fillers(g.written, written)
	g.written = written
	if !urgent {
		return nil
	}
	for _, name := range names {
		fl.cfg.Log.Error().Str("sprite", name).Uint64("free_mib", left.Bytes>>20).Msg("sprite ended, because it fills the disk")
		if box := running[name].present(); box != nil {
			if err := box.StopFor(errFilled); err != nil {
				fl.cfg.Log.Warn().Err(err).Str("sprite", name).Msg("end a sprite that fills the disk")
			}
		}
		ended = append(ended, name)
	}
	return ended
}

// fillers names who wrote the most since before; all, where nothing is known of what they wrote.
func fillers(before, now map[string]uint64) (names []string) {
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
