package skill

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// withExit adds the exit code to the outbox's record of a failure: the result line has none, its process does.
func withExit(line []byte, exit int) []byte {
	return fmt.Appendf(line[:len(line)-1:len(line)-1], `,"exit":%d}`, exit)
}

// adopt completes a journal that stops at work which the outbox says was done: the call was killed between its two
// records. Without it the work would be done twice, and two results stand for one call.
//
// Anything in the sprite can write the outbox, as it can the journal; that gives it a say over results of calls in this
// sprite and over nothing else.
func (r *runner) adopt() error {
	last := r.journal.Last()
	if r.class == manifests.ClassRead || last.State != journal.Started && last.State != journal.Resumed {
		return nil
	}
	var found *journal.Record
	err := outbox.Results(r.root, last.OutboxAt, r.id, func(info protocol.Info) bool {
		result, ok := protocol.DecodeResult(info.Metadata)
		var end struct{ Exit int }
		if !ok || json.Unmarshal(info.Metadata, &end) != nil || result.Skill != r.skill.Name || result.CallID != r.id ||
			result.OK != (end.Exit == protocol.ExitOK) || !settled(last.State, &result, end.Exit) {
			return true // torn, foreign, planted, or of an attempt that may be made again
		}
		line, err := encodeResult(result)
		if err != nil {
			return true
		}
		found = &journal.Record{
			State: journal.Done, Exit: end.Exit, Result: line,
			PayloadSHA256: last.PayloadSHA256, Waiting: last.Waiting, Request: last.Request,
		}
		return false
	})
	if err != nil || found == nil {
		return err
	}
	return r.journal.Append(*found, false)
}
