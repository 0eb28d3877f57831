package lattice

import (
	"fmt"
	"strconv"
	"strings"
)

// Superseded returns the events of calls that were cut off and repeated from an earlier checkpoint: their events
// since that checkpoint are no longer true of the sprite's files. A call that waited goes back to its wait; one
// that only reads is repeated, and all its events stay. Events after the moment to which a run was rewound, or went back
// after a loss of power, belong to a course that it left.
func Superseded(entries []Entry) map[Seq]bool {
	gone := map[Seq]bool{}
	since := map[string][]Seq{} // events of a call since its checkpoint
	lost := map[string]string{} // the call that was cut off last, by iteration path
	for _, e := range entries {
		if e.Kind == EntryEvent {
			since[e.CallID] = append(since[e.CallID], e.Seq)
			continue
		}
		fact, err := DecodeFact(e.Type, e.Body)
		if err != nil {
			continue
		}
		switch f := fact.(type) {
		case Rewound:
			for _, before := range entries {
				if before.Kind == EntryEvent && before.Seq > f.Moment.Seq && before.Seq < e.Seq {
					gone[before.Seq] = true
				}
			}
		case PowerLost:
			for _, before := range entries {
				if before.Kind == EntryEvent && before.Seq < e.Seq && f.Supersedes(before.Sprite, before.Seq) {
					gone[before.Seq] = true
				}
			}
		case CallSuspended:
			delete(since, f.CallID)
			delete(lost, IterationPath(f.CommandID))
		case CallBlocked:
			delete(lost, IterationPath(f.CommandID))
		case CallFinished:
			delete(lost, IterationPath(f.CommandID))
		case CallLost:
			lost[IterationPath(f.CommandID)] = f.CallID
		case Restored:
			at := IterationPath(f.CommandID)
			call, ok := lost[at]
			if !ok { // the flow itself went back, after calls that count
				continue
			}
			for _, seq := range since[call] {
				gone[seq] = true
			}
			delete(since, call)
			delete(lost, at)
		}
	}
	return gone
}

// CopyName is the name of the copy of a sprite that an iteration of a run has.
func CopyName(sprite, run string, epoch int, path string) string {
	return fmt.Sprintf("%.40s-%s", sprite, DerivedKey(run, strconv.Itoa(epoch), path)[:12])
}

// IterationPath is the iteration path of a command, "" of one outside of any MAP.
func IterationPath(command string) string {
	_, path, _ := strings.Cut(command, "@")
	return path
}
