package session

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// observer collects the events of one call, from its stream and from the outbox, each event once.
type observer struct {
	call   lattice.Call
	issued func() map[string]bool // ids of the run's calls; asked for when a stranger speaks
	event  func(lattice.Event)

	seen    map[digest]bool // dedupe keys already handed on
	known   map[digest]int  // occurrences of keys without event_id in the outbox before this call
	foreign map[digest]int  // the same in the source at hand
	counted int             // different events of this call

	own, others budget // the rest that may be handed on: of this call, and of all others that the outbox holds

	result   *protocol.Result        // last result line of the stream
	late     bool                    // other output followed it
	long     bool                    // the last line of output was longer than a reader takes
	recorded *protocol.Result        // result record of this call in the outbox
	waiting  *protocol.Waiting       // this call's last WAITING
	request  *protocol.ActionRequest // the blocking request that it waits for
	asked    *protocol.ActionRequest // a blocking request whose WAITING has yet to come

	question *protocol.Question // this call's first legacy question or blocked
	outbox   bool               // events come from the outbox: one without a call id may be of an earlier time or another call

	grace    time.Duration     // how long the call may go on after WAITING
	inShared bool              // its process serves other calls, too
	sole     *protocol.Stretch // the end of the outbox, which only that process wrote
}

// digest stands for a dedupe key, however long a stranger made it.
type digest [16]byte

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:len(digest{})])
}

// budget is the remaining allowance of events.
type budget struct {
	events, bytes int
	full          bool // something was left out
}

// hasRoom reports whether an event of size bytes may be passed on, and records if it may not.
func (b *budget) hasRoom(size int) bool {
	ok := b.events > 0 && b.bytes >= size
	b.full = b.full || !ok
	return ok
}

func (b *budget) spend(size int) { b.events, b.bytes = b.events-1, b.bytes-size }

// reset forgets what an earlier dispatch of the call said: it must neither end nor complete the one that starts now.
func (o *observer) reset() {
	o.counted, o.result, o.recorded, o.waiting, o.request, o.asked = 0, nil, nil, nil, nil, nil
	o.late, o.long = false, false
	o.question, o.inShared, o.sole = nil, false, nil
}

// reread begins another source of the same events, whose part that came before holds the known ones.
func (o *observer) reread(known map[digest]int) { o.known, o.foreign = known, maps.Clone(known) }

// rereadStream begins another reading of the stream. Only the events that were handed on before still count.
func (o *observer) rereadStream(known map[digest]int) {
	o.result = nil
	o.reread(known)
}

// readStdout takes the records of a stdout stream until it ends, and calls heard after each.
func (o *observer) readStdout(stdout *io.PipeReader, output io.Writer, heard func()) {
	scanner := protocol.NewScanner(stdout)
	var rec protocol.Record
	for {
		if err := scanner.Read(&rec); err != nil {
			stdout.CloseWithError(err) // unblocks the writer
			return
		}
		o.handleRecord(&rec, output)
		heard()
	}
}

// handleRecord handles one record of the stdout stream. Lines other than events and the result go to output.
func (o *observer) handleRecord(rec *protocol.Record, output io.Writer) {
	switch rec.Kind {
	case protocol.KindEvent:
		o.takeEvent(rec.Event, rec.Problems)
	case protocol.KindWarning:
		o.long = o.long || rec.Code == protocol.WarnLineCut
		fmt.Fprintf(output, "%s: stdout line %d: %s: %s\n", o.call.Skill, rec.Line, rec.Code, rec.Detail)
	case protocol.KindOutput:
		if res, ok := protocol.DecodeResult(rec.Bytes); ok {
			o.result, o.late, o.long = &res, false, false
			return
		}
		o.late, o.long = o.late || o.result != nil, false
		fmt.Fprintf(output, "%s\n", rec.Bytes)
	}
}

// Flags of events that may not be the call's own, or that are in the legacy form.
const (
	FlagNoCallID = "no_call_id"
	FlagNested   = "nested" // of a call that the program of the call made
	FlagLegacy   = "legacy"
)

// Declares reports whether an event with these flags may declare a product of a sprite. A product decides nothing, so the
// legacy form and a missing call id are allowed.
func Declares(flags []string) bool {
	return !slices.ContainsFunc(flags, func(f string) bool { return f != FlagNoCallID && f != FlagNested && f != FlagLegacy })
}

// Proposes reports whether an event with these flags may propose a change of the environment, about which a trial or a person
// decides.
func Proposes(flags []string) bool {
	return !slices.ContainsFunc(flags, func(f string) bool { return f != FlagNested })
}

// takeEvent attributes an event, records its effect on the outcome of the call, and passes it on once.
func (o *observer) takeEvent(e protocol.Event, problems []protocol.Problem) {
	ev := lattice.Event{Sprite: o.call.Sprite, CallID: e.CallID, Event: e, Problems: problems}
	// The envelope of the protocol has no call id: on the stream of the exec that is open such an event is this call's.
	mine := e.CallID == o.call.ID || e.CallID == "" && !o.outbox
	switch {
	case mine:
		ev.CallID = o.call.ID
	case e.CallID == "": // in the outbox it may be of another time
		ev.CallID, ev.Flags = o.call.ID, append(ev.Flags, FlagNoCallID)
	case o.issued()[e.CallID]:
		if isResult(e) {
			return // of an earlier call; the journal holds it as a fact
		}
	case protocol.IsNested(o.call.ID, e.CallID):
		ev.Flags = append(ev.Flags, FlagNested)
	default:
		ev.Flags = append(ev.Flags, "unknown_call") // kept, and nothing acts on it
	}
	question, asked := protocol.Asked(e)
	if e.Legacy || asked {
		ev.Flags = append(ev.Flags, FlagLegacy)
	}
	ev.Problems = append(ev.Problems, o.foreignClaims(e)...)
	if asked && len(ev.Problems) == 0 && o.question == nil && mine {
		o.question = &question
	}
	if len(ev.Problems) == 0 && mine && (e.CallID != "" || !isResult(e)) && o.noteOutcome(e) {
		return // the call's own result; the journal holds it as a fact
	}
	left := &o.others
	if e.CallID == o.call.ID {
		left = &o.own
	}
	if !left.hasRoom(len(e.Payload)) {
		return
	}
	ev.Dedupe = o.dedupeKey(e)
	if id := digestOf(ev.Dedupe); !o.seen[id] {
		o.seen[id] = true
		left.spend(len(e.Payload))
		if e.CallID == o.call.ID {
			o.counted++
		}
		o.event(ev)
	}
}

// mustSkip reports that a line of the outbox cannot matter any more: nothing more is handed on, and the line does not name
// the call, whose outcome may still depend on it. This makes it cheap to read a flood.
func (o *observer) mustSkip(line []byte) bool {
	return o.others.full && !bytes.Contains(line, []byte(o.call.ID))
}

// reportDropped writes to output that events were left out.
func (o *observer) reportDropped(output io.Writer) {
	if o.own.full || o.others.full {
		fmt.Fprintf(output, "%s said more events than one call may; the rest are in %s of sprite %s\n", o.call.Skill, protocol.OutboxFile, o.call.Sprite)
	}
}

// dedupeKey makes the dedupe key of an event within its sprite. Equal events without an id are told apart by counting them
// over the whole outbox, so that reading it again gives the same keys. Those without an instant either are counted per
// call: two calls that say the same word have said it twice.
func (o *observer) dedupeKey(e protocol.Event) string {
	key := protocol.DedupeKey(e)
	if e.EventID != "" {
		return key
	}
	id := digestOf(key)
	o.foreign[id]++
	if e.Timestamp != "" {
		return key + "/" + strconv.Itoa(o.foreign[id])
	}
	return key + "/" + cmp.Or(e.CallID, o.call.ID) + "/" + strconv.Itoa(o.foreign[id]-o.known[id])
}

// foreignClaims returns problems for an event that claims to be of another sprite or work item. Such events are not rerouted.
func (o *observer) foreignClaims(e protocol.Event) []protocol.Problem {
	var out []protocol.Problem
	if e.SpriteID != "" && e.SpriteID != o.call.Sprite {
		out = append(out, protocol.Problem{Pointer: "/sprite_id", Message: "names another sprite than the one that said it"})
	}
	if e.WorkItemID != "" && e.WorkItemID != o.call.WorkItem {
		out = append(out, protocol.Problem{Pointer: "/work_item_id", Message: "names another work item than the run's"})
	}
	return out
}

// resultKind marks the INFO by which a sprite records a call's result.
const resultKind = "result"

func isResult(e protocol.Event) bool {
	if e.Legacy { // spritekit does not write legacy events
		return false
	}
	payload, err := e.Open()
	info, ok := payload.(protocol.Info)
	return err == nil && ok && info.Kind == resultKind
}

// noteOutcome keeps the events on which the outcome of the call depends; it reports whether e is the call's result record.
func (o *observer) noteOutcome(e protocol.Event) bool {
	payload, err := e.Open()
	if err != nil || e.Legacy {
		return false
	}
	switch p := payload.(type) {
	case protocol.Waiting:
		o.waiting, o.request, o.asked = &p, o.asked, nil
	case protocol.ActionRequest:
		if p.Blocking {
			o.asked = &p
		}
	case protocol.Info:
		if p.Kind == resultKind {
			if res, ok := protocol.DecodeResult(p.Metadata); ok {
				o.recorded = &res
			}
			return true
		}
	}
	return false
}
