package skill

import (
	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// action is the next step of a call, given the state of its journal.
type action int

const (
	doRun    action = iota // do the work, from the beginning
	doResume               // do the work, with the answers
	doReplay               // write the recorded result
	doWait                 // repeat that the call waits
	doRefuse               // whether the effect happened is unknown: a person decides
)

// answer is a resume.json for this call.
type answer struct {
	checkpoint string
	digest     string
	resume     *protocol.Resume
}

// decide returns the action for a call from the last record of its journal, the class of its effects and the answer, nil
// for none (DESIGN 14, 24).
func decide(last journal.Record, class manifests.Class, a *answer) action {
	if a != nil && !waitedFor(last, a) {
		a = nil // it is the answer to another pause
	}
	switch last.State {
	case "":
		return doRun
	case journal.Started: // crashed: its lock was free
		if class == manifests.ClassWorld {
			return doRefuse
		}
		return doRun
	case journal.Suspending:
		if a != nil && a.digest != last.PayloadSHA256 { // that one answered an earlier pause
			return doResume
		}
		return doWait
	case journal.Resumed: // crashed after the answer arrived
		switch {
		case class == manifests.ClassWorld:
			return doRefuse
		case a != nil:
			return doResume
		}
		return doWait
	case journal.Done:
		switch {
		case a != nil && (class == manifests.ClassRead || a.digest != last.PayloadSHA256):
			return doResume
		case class == manifests.ClassRead:
			return doRun
		}
		return doReplay
	}
	return doRefuse
}

// waitedFor reports whether the call paused at the checkpoint of the answer. The journal inside a checkpoint does not have
// the checkpoint's id, which is not known when it is taken.
func waitedFor(last journal.Record, a *answer) bool {
	if last.Waiting == nil {
		return false
	}
	id := last.Waiting.CheckpointID
	return id == "" || id == checkpoint.Pending || id == a.checkpoint
}
