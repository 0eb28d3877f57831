package fleet

import (
	"errors"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// errHoards ends sprites that leave nothing to others.
var errHoards = errors.New("this sprite held so many open files or epoll entries that the kernel had none left for others; its files are kept")

// ShortageGuard ends the sprite that has used up a table that the kernel shares between the sprites of a user, or of the
// machine. The host keeps a reserve of its own, so that it can still be reached.
type ShortageGuard struct {
	Fleet   *Fleet
	Room    sandbox.Held
	Reserve *sandbox.Reserve
}

// guardShares works until the host closes. It looks once a second, and when a sandbox could not be started.
func (fl *Fleet) guardShares() {
	g := &ShortageGuard{Fleet: fl, Room: sandbox.Room(), Reserve: sandbox.NewReserve()}
	defer g.Reserve.Release()
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if len(fl.Running()) > 0 && !g.Reserve.Keep() {
				g.Look()
			}
		case <-fl.starved:
			g.Look()
		case <-fl.Context.Done():
			return
		}
	}
}

// Look ends the sprite that holds the largest share of the scarcer table, and returns its name; "" when the shortage is not of
// their making.
func (g *ShortageGuard) Look() (name string) {
	held := map[*Sprite]sandbox.Held{}
	var all sandbox.Held
	for _, s := range g.Fleet.Running() {
		if box := s.Present(); box != nil {
			h := box.Processes().Held()
			held[s] = h
			all.Files += h.Files
			all.Entries += h.Entries
		}
	}
	share := func(part, of uint64) float64 { return float64(part) / float64(max(of, 1)) }
	of := func(h sandbox.Held) uint64 { return h.Files }
	room := g.Room.Files
	if share(all.Entries, g.Room.Entries) > share(all.Files, room) {
		of, room = func(h sandbox.Held) uint64 { return h.Entries }, g.Room.Entries
	}
	if room == 0 || of(all) < room/2 {
		return ""
	}
	var worst *Sprite
	for s, h := range held {
		if worst == nil || of(h) > of(held[worst]) {
			worst = s
		}
	}
	g.Fleet.Config.Log.Error().Str("sprite", worst.Name).Uint64("files", held[worst].Files).Uint64("epoll_entries", held[worst].Entries).
		Msg("sprite ended, because it leaves no open files or epoll entries to others")
	if box := worst.Present(); box != nil {
		if err := box.StopFor(errHoards); err != nil {
			g.Fleet.Config.Log.Warn().Err(err).Str("sprite", worst.Name).Msg("end a sprite that leaves nothing to others")
		}
	}
	return worst.Name
}

// Guard starts the goroutines that watch the disk and the kernel's shared tables. They end with the host.
func (fl *Fleet) Guard() {
	fl.Guards.Go(fl.guardShares)
	if fl.Config.Reserve >= 0 {
		fl.Guards.Go(fl.guardDisk)
	}
}
