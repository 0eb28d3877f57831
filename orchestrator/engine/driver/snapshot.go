package driver

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// The state is a fold of the facts (DESIGN 2); a snapshot of it is there for those who only look. It is written down when
// the run comes to rest and when its status changes, and in between when as much was recorded since the last one as that
// holds, but not before snapshotEvery facts: the size of all snapshots of a run is bounded by the size of its facts.

const snapshotEvery = 64

// snapshots counts the facts since the last snapshot.
type snapshots struct {
	facts, bytes int
	size         int // of the last one
}

// countSince counts the facts of a history after its snapshot.
func countSince(h replay.History) snapshots {
	at := slices.IndexFunc(h.Facts, func(e lattice.Entry) bool { return e.Seq > h.SnapshotSeq })
	if at < 0 {
		at = len(h.Facts)
	}
	return snapshots{size: len(h.Snapshot)}.addEntries(h.Facts[at:])
}

// addEntries counts further entries.
func (n snapshots) addEntries(entries []lattice.Entry) snapshots {
	for _, e := range entries {
		if e.Kind == lattice.EntryFact {
			n.facts++
			n.bytes += len(e.Body)
		}
	}
	return n
}

// isDue reports whether the state is to be written down with the facts that led to it.
func (n snapshots) isDue(before, after runstate.State) bool {
	return before.Status != after.Status || after.Rests() || n.facts >= snapshotEvery && n.bytes >= n.size
}
