package skill

import (
	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// action is what to do with a call, given what its journal knows.
type action int

const (
	doRun    action = iota // do the work, from the beginning
	doResume               // do the work, with the answers
	doReplay               // give the recorded result, do nothing
	doWait                 // say again that the call waits
	doRefuse               // it is not known whether the effect happened: a person decides
)

// answer is a resume.json for this call.
type answer struct {
	checkpoint string
	digest     string
	resume     *protocol.Resume
}

// decide applies DESIGN 14 and 24: what the journal stands at, how far the effects of the skill reach, and which
// answer is there (nil for none) give what to do.
func decide(last journal.Record, class manifests.Class, a *answer) action {
	if a != nil && !waitedFor(last, a) {
		a = nil // of another pause: it answers nothing here
	}
	switch last.State {
	case "":
		return doRun
	case journal.Started: // crashed, as its lock was free
		if class == manifests.ClassWorld {
			return doRefuse
		}
		return doRun
	case journal.Suspending:
		if a != nil && a.digest != last.PayloadSHA256 { // that one answered an earlier pause
			return doResume
		}
		return doWait
	case journal.Resumed: // crashed after the answer came
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

// waitedFor reports whether the call paused on the checkpoint that the answer is for. A checkpoint does not know its
// own id, so that the journal inside it names none.
func waitedFor(last journal.Record, a *answer) bool {
	if last.Waiting == nil {
		return false
	}
	id := last.Waiting.CheckpointID
	return id == "" || id == checkpoint.Pending || id == a.checkpoint
}
