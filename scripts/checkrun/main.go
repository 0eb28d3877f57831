// Command checkrun judges a finished run from the outside. It shares no code with what it judges: it knows the formats
// from their specification and reads three independent witnesses.
//
//	-journal  what the orchestrator recorded   (lattice events RUN --journal --json)
//	-outbox   what the sprite recorded         (/workspace/.lattice/outbox.jsonl)
//	-pushes   what arrived at the origin       (one line "old new ref" per update, written by its post-receive hook)
//
// It holds that each event is there once and in order, each node was done once, and each effect happened once, and
// prints every violation. Exit code 1 when there is one. Of calls that ran beside each other (-at-once) order is promised
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
	Timestamp string          `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

type fact struct {
	CommandID string `json:"command_id"`
	CallID    string `json:"call_id"`
	WaitID    string `json:"wait_id"`
	Key       string `json:"key"`
	OK        bool   `json:"ok"`
	Fault     struct {
		Code string `json:"code"`
	} `json:"fault"`
}

type span struct{ from, to uint64 }

type report []string

func (r *report) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

func main() {
	journal := flag.String("journal", "", "`FILE` with the run's entries, JSON lines")
	outbox := flag.String("outbox", "", "`FILE` with the sprite's outbox")
	pushes := flag.String("pushes", "", "`FILE` with the origin's record of updates")
	atOnce := flag.Bool("at-once", false, "calls ran beside each other")
	wantPushes := flag.Int("want-pushes", 1, "updates that must have arrived")
	flag.Parse()
	var r report
	entries := read[entry](&r, *journal)
	live := judgeJournal(&r, entries)
	judgeOutbox(&r, live, read[event](&r, *outbox), *atOnce)
	judgePushes(&r, *pushes, *wantPushes)
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

// judgeJournal checks facts and events, and returns the sprite's events that were not superseded, in order.
func judgeJournal(r *report, entries []entry) []event {
	answered, waits, ids := map[string]int{}, map[string]int{}, map[string]int{}
	paused := map[string]uint64{} // where a call waited last
	undone := map[string][]span{} // stretches whose events of a call a restore took back
	cut := map[string]string{}    // the call that was lost last, by iteration
	keys, last := map[string]int{}, uint64(0)
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
				undone[call] = append(undone[call], span{paused[call], e.Seq})
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
	var live []event
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
		if strings.Contains(strings.Join(e.Flags, " "), "orchestrator") {
			ends++
			continue
		}
		if len(e.Flags) > 0 || len(e.Probs) > 0 {
			r.add("event %d is flagged %v %v", e.Seq, e.Flags, e.Probs)
		}
		if slices.ContainsFunc(undone[e.CallID], func(s span) bool { return e.Seq > s.from && e.Seq < s.to }) {
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
		live = append(live, ev)
	}
	for id, n := range ids {
		if n != 1 {
			r.add("event %s is recorded %d times", id, n)
		}
	}
	if ends != 1 {
		r.add("the work item ended %d times", ends)
	}
	return live
}

// judgeOutbox holds the sprite's record against the orchestrator's: the same events in the same order. A restore to the
// checkpoint of a WAITING takes that WAITING and the result record after it out of the outbox; nothing else may lack.
func judgeOutbox(r *report, live, outbox []event, atOnce bool) {
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
			if !afterCheckpoint(e) {
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
		if !seen[e.EventID] && !isResult(e) {
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
