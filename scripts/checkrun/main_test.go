package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fixture makes a run of two calls and one push, with a rewind to after the first call.
func fixture() (entries []entry, outbox []event) {
	at := 0
	add := func(kind, what, body string, flags ...string) {
		entries = append(entries, entry{Seq: uint64(len(entries) + 1), Kind: kind, Type: what, Body: json.RawMessage(body), CallID: "c", Flags: flags})
	}
	say := func(call, what string, kept bool) {
		at++
		e := event{EventID: fmt.Sprint("e", at), EventType: what, CallID: call, Timestamp: fmt.Sprintf("2026-01-01T00:00:%02dZ", at), Payload: json.RawMessage(`{}`)}
		body, _ := json.Marshal(e) // it has only strings
		add("event", what, string(body))
		entries[len(entries)-1].CallID = call
		if kept {
			outbox = append(outbox, e)
		}
	}
	add("fact", "RunStarted", `{}`)
	say("c1", "PHASE_STARTED", true)
	say("c1", "PHASE_FINISHED", true)
	add("fact", "CallFinished", `{"command_id":"e0.1.call","ok":true}`) // 4
	say("c2", "PHASE_STARTED", false)
	add("fact", "CallFinished", `{"command_id":"e0.2.call","ok":true}`)
	add("event", "COMPLETED", `{"event_id":"end1"}`, "orchestrator")
	add("fact", "Rewound", `{"moment":{"seq":4},"pair":{"seq":4}}`)
	add("fact", "Restored", `{"command_id":"e1.1.restore"}`)
	say("c3", "PHASE_STARTED", true)
	say("c3", "PHASE_FINISHED", true)
	add("fact", "CallFinished", `{"command_id":"e1.2.call","ok":true}`)
	add("fact", "Answered", `{"wait_id":"w"}`)
	add("fact", "ActionDone", `{"command_id":"e1.3.act","key":"k","ok":true}`)
	add("event", "COMPLETED", `{"event_id":"end2"}`, "orchestrator")
	return entries, outbox
}

// TestViolations: a sound run has no violation, and each change of one witness is found.
func TestViolations(t *testing.T) {
	copied := func(all []entry, i int) []entry { // entry i comes once more, at the end
		e := all[i]
		e.Seq = all[len(all)-1].Seq + 1
		return append(all, e)
	}
	for name, tt := range map[string]struct {
		change func(entries []entry, outbox []event) ([]entry, []event)
		want   string
	}{
		"sound":                 {nil, ""},
		"an answer twice":       {func(e []entry, o []event) ([]entry, []event) { return copied(e, 11), o }, "e1.2.call was answered 2 times"},
		"a wait answered twice": {func(e []entry, o []event) ([]entry, []event) { return copied(e, 12), o }, "wait w was answered 2 times"},
		"an action twice":       {func(e []entry, o []event) ([]entry, []event) { return copied(e, 13), o }, "action k was done 2 times"},
		"ended twice":           {func(e []entry, o []event) ([]entry, []event) { return copied(e, 14), o }, "the work item ended 2 times"},
		"no end":                {func(e []entry, o []event) ([]entry, []event) { return e[:14], o }, "the work item ended 0 times"},
		"an event twice":        {func(e []entry, o []event) ([]entry, []event) { return copied(e, 1), o }, "event e1 is recorded 2 times"},
		"out of sequence":       {func(e []entry, o []event) ([]entry, []event) { e[3].Seq = 1; return e, o }, "entry 1 comes after entry 3"},
		"flagged":               {func(e []entry, o []event) ([]entry, []event) { e[1].Flags = []string{"late"}; return e, o }, "event 2 is flagged"},
		"earlier than before": {func(e []entry, o []event) ([]entry, []event) {
			e[9], e[10] = e[10], e[9]
			e[9].Seq, e[10].Seq = 10, 11
			return e, o
		}, "is not later than the one before"},
		"missing in the journal": {func(e []entry, o []event) ([]entry, []event) { return slices.Delete(e, 1, 2), o }, "e1 of the outbox was not recorded"},
		"missing in the outbox":  {func(e []entry, o []event) ([]entry, []event) { return e, o[1:] }, "e1 is not in the outbox"},
		"twice in the outbox":    {func(e []entry, o []event) ([]entry, []event) { return e, append(o, o[0]) }, "e1 is twice in the outbox"},
		"reordered outbox":       {func(e []entry, o []event) ([]entry, []event) { o[0], o[1] = o[1], o[0]; return e, o }, "is out of order"},
		"loss of power": {func(e []entry, o []event) ([]entry, []event) {
			e[7].Type, e[7].Body = "PowerLost", json.RawMessage(`{"seq":4,"pair":{"seq":1},"state":{}}`)
			return e, o[2:]
		}, ""},
		"loss of power at a turn": {func(e []entry, o []event) ([]entry, []event) {
			e[7].Type, e[7].Body = "PowerLost", json.RawMessage(`{"seq":7,"pair":{"seq":1,"sprite":"box"},"state":{},"sprites":[{"pair":{"seq":1,"sprite":"box"},"events_to":4}]}`)
			for i := range e {
				e[i].Sprite = "box"
			}
			return e, o[2:]
		}, ""},
		"not taken back": {func(e []entry, o []event) ([]entry, []event) { e[7].Type = "Other"; return e, o }, "the work item ended 2 times"},
	} {
		entries, outbox := fixture()
		if tt.change != nil {
			entries, outbox = tt.change(entries, outbox)
		}
		var r report
		live, forked := judgeJournal(&r, entries, false)
		judgeOutbox(&r, live, outbox, false, forked, false)
		if got := strings.Join(r, "\n"); got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: the checker says %q, want %q", name, got, tt.want)
		}
	}
}
