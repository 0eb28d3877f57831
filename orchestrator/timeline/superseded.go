package timeline

import "github.com/spritekit/lattice/orchestrator/lattice"

// Superseded returns the events of calls that were cut off and repeated from an earlier checkpoint: their events
// since that checkpoint is no longer true of the sprite's files. A call that waited goes back to where it waited; one
// that only reads is done again where it stands, and everything it said stays. What was said behind the moment to which a
// run was rewound, or went back after a loss of power, belongs to a course that it left.
func Superseded(entries []lattice.Entry) map[lattice.Seq]bool {
	gone := map[lattice.Seq]bool{}
	since := map[string][]lattice.Seq{} // events of a call since its checkpoint
	lost := map[string]string{}         // the call that was cut off last, by iteration path
	for _, e := range entries {
		if e.Kind == lattice.EntryEvent {
			since[e.CallID] = append(since[e.CallID], e.Seq)
			continue
		}
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			continue
		}
		switch f := fact.(type) {
		case lattice.Rewound:
			for _, before := range entries {
				if before.Kind == lattice.EntryEvent && before.Seq > f.Moment.Seq && before.Seq < e.Seq {
					gone[before.Seq] = true
				}
			}
		case lattice.PowerLost:
			for _, before := range entries {
				if len(f.State) > 0 && before.Kind == lattice.EntryEvent && before.Seq > f.Seq && before.Seq < e.Seq {
					gone[before.Seq] = true
				}
			}
		case lattice.CallSuspended:
			delete(since, f.CallID)
			delete(lost, pathOf(f.CommandID))
		case lattice.CallBlocked:
			delete(lost, pathOf(f.CommandID))
		case lattice.CallFinished:
			delete(lost, pathOf(f.CommandID))
		case lattice.CallLost:
			lost[pathOf(f.CommandID)] = f.CallID
		case lattice.Restored:
			at := pathOf(f.CommandID)
			for _, seq := range since[lost[at]] {
				gone[seq] = true
			}
			delete(since, lost[at])
			delete(lost, at)
		}
	}
	return gone
}
