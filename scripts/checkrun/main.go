// Command checkrun judges a finished run from the outside. It shares no code with the engine that it judges: it knows the formats
// from their specification and reads three independent witnesses.
//
//	-journal  the records of the orchestrator  (lattice events RUN --journal --json)
//	-outbox   the records of the sprite        (/workspace/.lattice/outbox.jsonl)
//	-pushes   the pushes at the origin         (one line "old new ref" per update, written by its post-receive hook)
//
// It holds that each event is there once and in order, each node was done once, and each effect happened once, and
// prints every violation. Exit code 1 when there is one. Of calls that ran concurrently (-at-once) order is promised
// within each call only.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

type entry struct {
	Seq    uint64          `json:"seq"`
	Kind   string          `json:"kind"`
	Type   string          `json:"type"`
	Body   json.RawMessage `json:"body"`
	CallID string          `json:"call_id"`
	Sprite string          `json:"sprite"`
	Flags  []string        `json:"flags"`
	Probs  []any           `json:"problems"`
}

type event struct {
	EventID   string          `json:"event_id"`
	EventType string          `json:"event_type"`
	CallID    string          `json:"call_id"`
	SpriteID  string          `json:"sprite_id"`
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`

	missed bool // an outbox that was restored may lack it
}

type fact struct {
	CommandID string `json:"command_id"`
	CallID    string `json:"call_id"`
	WaitID    string `json:"wait_id"`
	Key       string `json:"key"`
	OK        bool   `json:"ok"`
	Seq       uint64 `json:"seq"`
	Moment    struct {
		Seq uint64 `json:"seq"`
	} `json:"moment"`
	Pair    *pair           `json:"pair"`
	State   json.RawMessage `json:"state"`
	Sprites []struct {
		Pair     pair   `json:"pair"`
		EventsTo uint64 `json:"events_to"`
	} `json:"sprites"`
	Fault struct {
		Code string `json:"code"`
	} `json:"fault"`
}

type pair struct {
	Seq        uint64 `json:"seq"`
	Sprite     string `json:"sprite"`
	Checkpoint string `json:"checkpoint_id"`
}

// span is a stretch of the journal: of all sprites but those of not, or of one.
type span struct {
	from, to uint64
	of       string
	not      []string
}

func (s span) coversEntry(e entry) bool {
	return e.Seq > s.from && e.Seq < s.to && (s.of == "" || s.of == e.Sprite) && !slices.Contains(s.not, e.Sprite)
}

type report []string

func (r *report) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

func main() {
	journal := flag.String("journal", "", "`FILE` with the run's entries, JSON lines")
	outbox := flag.String("outbox", "", "`FILE` with the sprite's outbox")
	pushes := flag.String("pushes", "", "`FILE` with the origin's record of updates")
	atOnce := flag.Bool("at-once", false, "calls ran beside each other")
	wantPushes := flag.Int("want-pushes", 1, "updates that must have arrived")
	sprite := flag.String("sprite", "", "`NAME` of the sprite whose outbox it is, for a run that works in several")
	open := flag.Bool("open", false, "the run has not ended, and may go on while it is judged")
	flag.Parse()
	var r report
	entries := read[entry](&r, *journal)
	live, forked := judgeJournal(&r, entries, *open)
	if *outbox != "" {
		if *sprite != "" {
			live = slices.DeleteFunc(live, func(e event) bool { return e.SpriteID != *sprite })
		}
		judgeOutbox(&r, live, read[event](&r, *outbox), *atOnce, forked, *open)
	}
	if *pushes != "" {
		judgePushes(&r, *pushes, *wantPushes)
	}
	for _, line := range r {
		fmt.Println(line)
	}
	if len(r) > 0 {
		os.Exit(1)
	}
	fmt.Printf("sound: %d entries, %d events\n", len(entries), len(live))
}

// read parses JSON lines; a line that is none is a violation.
func read[T any](r *report, path string) []T {
	f, err := os.Open(path)
	if err != nil {
		r.add("open: %v", err)
		return nil
	}
	defer f.Close()
	var out []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for n := 1; lines.Scan(); n++ {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			r.add("%s:%d: %v", path, n, err)
			continue
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil {
		r.add("%s: %v", path, err)
	}
	return out
}

// judgeJournal checks facts and events, and returns the sprite's events that were not superseded, in order, and whether the run is a fork.
func judgeJournal(r *report, entries []entry, open bool) (live []event, forked bool) {
	answered, waits, ids := map[string]int{}, map[string]int{}, map[string]int{}
	paused := map[string]uint64{} // where a call waited last
	undone := map[string][]span{} // stretches whose events of a call a restore took back
	cut := map[string]string{}    // the call that was lost last, by iteration
	var rewound, missed []span    // stretches that a rewind or a loss of power took back, and those whose events the outbox may lack
	keys, last, prepared := map[string]int{}, uint64(0), ""
	for _, e := range entries {
		if e.Seq <= last {
			r.add("entry %d comes after entry %d", e.Seq, last)
		}
		last = e.Seq
		if e.Kind != "fact" {
			continue
		}
		var f fact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			r.add("fact %d: %v", e.Seq, err)
		}
		switch e.Type {
		case "CallFinished", "CallBlocked", "Prepared", "BoundaryTaken", "Restored", "ActionDone", "CallSuspended", "CallLost", "Attested":
			answered[f.CommandID]++
		case "Answered":
			waits[f.WaitID]++
		case "Rewound":
			rewound = append(rewound, span{from: f.Moment.Seq, to: e.Seq})
		case "PowerLost":
			var listed []string
			for _, s := range f.Sprites {
				listed = append(listed, s.Pair.Sprite)
				rewound = append(rewound, span{from: s.EventsTo, to: e.Seq, of: s.Pair.Sprite})
				missed = append(missed, span{from: s.Pair.Seq, to: e.Seq, of: s.Pair.Sprite})
			}
			if len(f.State) > 0 {
				rewound = append(rewound, span{from: f.Seq, to: e.Seq, not: listed})
			}
			if len(f.State) == 0 || f.Pair != nil && f.Pair.Checkpoint == "" {
				delete(answered, prepared) // the sprite is made again
			}
		case "RunForked":
			forked = true
		}
		if (e.Type == "Rewound" || e.Type == "PowerLost") && f.Pair != nil {
			missed = append(missed, span{from: f.Pair.Seq, to: e.Seq, of: f.Pair.Sprite})
		}
		if e.Type == "Prepared" {
			prepared = f.CommandID
		}
		_, at, _ := strings.Cut(f.CommandID, "@")
		switch e.Type {
		case "CallSuspended":
			paused[f.CallID] = e.Seq
			delete(cut, at)
		case "CallFinished", "CallBlocked":
			if f.Fault.Code != "call_cut_off" { // else it could not go on after the cut, and is done again
				delete(cut, at)
			}
		case "CallLost":
			cut[at] = f.CallID
		case "Restored":
			if call := cut[at]; call != "" {
				undone[call] = append(undone[call], span{from: paused[call], to: e.Seq})
			}
			delete(cut, at)
		}
		if e.Type == "ActionDone" && f.OK {
			keys[f.Key]++
		}
	}
	for id, n := range answered {
		if n != 1 {
			r.add("command %s was answered %d times", id, n)
		}
	}
	for id, n := range waits {
		if n != 1 {
			r.add("wait %s was answered %d times", id, n)
		}
	}
	for key, n := range keys {
		if n != 1 {
			r.add("action %s was done %d times", key, n)
		}
	}
	when, ends := map[string]time.Time{}, 0
	for _, e := range entries {
		if e.Kind != "event" {
			continue
		}
		var ev event
		if err := json.Unmarshal(e.Body, &ev); err != nil {
			r.add("event %d: %v", e.Seq, err)
			continue
		}
		ids[ev.EventID]++
		if slices.ContainsFunc(rewound, func(s span) bool { return s.coversEntry(e) }) {
			continue
		}
		if strings.Contains(strings.Join(e.Flags, " "), "orchestrator") {
			ends++
			continue
		}
		if len(e.Flags) > 0 || len(e.Probs) > 0 {
			r.add("event %d is flagged %v %v", e.Seq, e.Flags, e.Probs)
		}
		if slices.ContainsFunc(undone[e.CallID], func(s span) bool { return s.coversEntry(e) }) {
			continue // said before the call was cut off and done again from its checkpoint
		}
		at, err := time.Parse(time.RFC3339Nano, ev.Timestamp)
		if err != nil {
			r.add("event %d: %v", e.Seq, err)
		}
		if !at.After(when[ev.CallID]) {
			r.add("event %d of %s is not later than the one before", e.Seq, ev.CallID)
		}
		when[ev.CallID] = at
		ev.missed = slices.ContainsFunc(missed, func(s span) bool { return s.coversEntry(e) })
		live = append(live, ev)
	}
	for id, n := range ids {
		if n != 1 {
			r.add("event %s is recorded %d times", id, n)
		}
	}
	if ends > 1 || ends == 0 && !open {
		r.add("the work item ended %d times", ends)
	}
	return live, forked
}

// judgeOutbox holds the sprite's record against the orchestrator's: the same events in the same order. A restore to the
// checkpoint of a WAITING takes that WAITING and the result record after it out of the outbox; nothing else may lack. The outbox of a fork begins with that of its origin,
// and that of a run that works goes on.
func judgeOutbox(r *report, live, outbox []event, atOnce, forked, open bool) {
	at := map[string]int{}
	for i, e := range outbox {
		if _, twice := at[e.EventID]; twice {
			r.add("event %s is twice in the outbox", e.EventID)
		}
		at[e.EventID] = i
	}
	seen, position := map[string]bool{}, map[string]int{}
	for _, e := range live {
		i, there := at[e.EventID]
		if !there {
			if !afterCheckpoint(e) && !e.missed {
				r.add("event %s %s is not in the outbox", e.EventType, e.EventID)
			}
			continue
		}
		line := "" // one order for all, or one for each call
		if atOnce {
			line = e.CallID
		}
		if i < position[line] {
			r.add("event %s %s is out of order", e.EventType, e.EventID)
		}
		position[line], seen[e.EventID] = i, true
	}
	for _, e := range outbox {
		if seen[e.EventID] {
			forked = false
		}
		if !seen[e.EventID] && !isResult(e) && !forked && !open {
			r.add("event %s %s of the outbox was not recorded", e.EventType, e.EventID)
		}
	}
}

func afterCheckpoint(e event) bool { return e.EventType == "WAITING" || isResult(e) }

func isResult(e event) bool {
	var p struct {
		Kind string `json:"kind"`
	}
	return e.EventType == "INFO" && json.Unmarshal(e.Payload, &p) == nil && p.Kind == "result"
}

func judgePushes(r *report, path string, want int) {
	data, err := os.ReadFile(path)
	if err != nil && (want > 0 || !os.IsNotExist(err)) {
		r.add("read pushes: %v", err)
		return
	}
	lines := strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' })
	if len(lines) != want {
		r.add("%d updates arrived at the origin, want %d: %q", len(lines), want, lines)
	}
}
