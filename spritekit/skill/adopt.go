package skill

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// withExit adds the exit code to the outbox record of a failure: the result line does not have it.
func withExit(line []byte, exit int) []byte {
	return fmt.Appendf(line[:len(line)-1:len(line)-1], `,"exit":%d}`, exit)
}

// adoptResult completes the journal of a call that was killed after its result was written to the outbox and before it was
// written to the journal. Otherwise the work would be done twice, and one call would have two results.
//
// Any program in the sprite can write the outbox, as it can the journal; it can thereby change the results of calls in
// this sprite, and nothing else.
func (c *accepted) adoptResult() error {
	last := c.journal.Last()
	if c.class == manifests.ClassRead || last.State != journal.Started && last.State != journal.Resumed {
		return nil
	}
	var found *journal.Record
	err := outbox.Results(c.root, last.OutboxAt, c.id, func(info protocol.Info) bool {
		result, ok := protocol.DecodeResult(info.Metadata)
		var end struct{ Exit int }
		if !ok || json.Unmarshal(info.Metadata, &end) != nil || result.Skill != c.skill.Name || result.CallID != c.id ||
			result.OK != (end.Exit == protocol.ExitOK) || !isFinal(last.State, &result, end.Exit) {
			return true // torn, of another call, forged, or of an attempt that may be repeated
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
	return c.journal.Append(*found, false)
}
