package session_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const good = `echo '{"ok":true,"skill":"shell","data":{}}'`

// TestForgery has the sprite say what it may not: all of it is kept, told apart, and without effect.
func TestForgery(t *testing.T) {
	w := newWorld(t)
	w.issued["call-0"] = true
	const waiting = `{"reason":"r","checkpoint_id":"v1"}`
	for _, tt := range []struct{ name, line, want string }{
		{"another sprite", `{"event_type":"WAITING","call_id":"call-1","sprite_id":"x","payload":` + waiting + `}`, "WAITING!/sprite_id"},
		{"another work item", `{"event_type":"WAITING","call_id":"call-1","work_item_id":"x","payload":` + waiting + `}`, "WAITING!/work_item_id"},
		{"a call never issued", `{"event_type":"WAITING","call_id":"forged","payload":` + waiting + `}`, "WAITING+unknown_call"},
		{"a nested call", `{"event_type":"WAITING","call_id":"` + protocol.NestedPrefix("call-1") + `a","payload":` + waiting + `}`, "WAITING+nested"},
		{"a nested call of another", `{"event_type":"WAITING","call_id":"` + protocol.NestedPrefix("call-0") + `a","payload":` + waiting + `}`, "WAITING+unknown_call"},
		{"an earlier call", `{"event_type":"WAITING","call_id":"call-0","payload":` + waiting + `}`, "WAITING"},
		{"an earlier call's result", `{"event_type":"INFO","call_id":"call-0","payload":{"message":"m","kind":"result"}}`, ""},
		{"no call", `{"event_type":"WAITING","payload":` + waiting + `}`, "WAITING+no_call_id"},
		{"legacy", `{"type":"blocked","reason":"r","call_id":"call-1"}`, "INFO+legacy"},
		{"legacy result", `{"type":"result","call_id":"call-1","ok":true,"skill":"shell","data":{}}`, "INFO+legacy"},
		{"bad payload", `{"event_type":"WAITING","call_id":"call-1","payload":{"reason":1}}`, "WAITING!/payload/reason!/payload/checkpoint_id"},
		{"another protocol", `{"protocol_version":"v9","event_type":"WAITING","call_id":"call-1","payload":` + waiting + `}`, "WAITING!/protocol_version"},
		{"invalid UTF-8", `{"event_type":"INFO","call_id":"call-1","payload":{"message":"\377"}}`, "INFO!"},
		{"no event", `{"a":1}`, ""},
		{"torn", `{"event_type":"INFO","call_id":"call-1","payl`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.sh(`rm -rf /workspace/.lattice; mkdir -p /workspace/.lattice; printf '` + tt.line + `\n' >/workspace/.lattice/outbox.jsonl`)
			c := shell(manifests.ClassWorld, good)
			out, events := w.must(c)
			if got := names(events); got != tt.want || !out.Result.OK || out.Kind != lattice.Finished {
				t.Errorf("Call = %+v with events %q, want %q", out, got, tt.want)
			}
			// A lost call finds nothing in it either.
			c.Uncertain = true
			if out, _ := w.must(c); out.Kind != lattice.Lost {
				t.Errorf("the uncertain call = %+v, want lost", out)
			}
		})
	}
	t.Run("huge line, torn tail", func(t *testing.T) {
		w.sh(`head -c 3000000 /dev/zero | tr '\0' x >/workspace/.lattice/outbox.jsonl; printf '\n{"event_type":"INFO","call_id":"call-1","payload":{"message":"after"}}\n{"event_type":"IN' >>/workspace/.lattice/outbox.jsonl`)
		_, events := w.must(shell(manifests.ClassWorld, good))
		if names(events) != "INFO" || !strings.Contains(w.output.String(), "3000001 bytes") {
			t.Errorf("events %q, output %s", names(events), &w.output)
		}
	})
	t.Run("no file", func(t *testing.T) {
		w.sh(`rm /workspace/.lattice/outbox.jsonl; mkdir /workspace/.lattice/outbox.jsonl`)
		if out, _ := w.must(shell(manifests.ClassWorld, good)); !out.Result.OK {
			t.Errorf("with a directory in the outbox's place: %+v", out)
		}
	})
}

// TestFlood has the sprite say more than one call may: what is beyond is left out and told, and the
// call's own outcome is what it was.
func TestFlood(t *testing.T) {
	const (
		line  = `{"event_type":"INFO","timestamp":"2026-01-01T00:00:00Z","payload":{"message":"x"}}` // 15 bytes of payload
		flood = `for i in 1 2 3 4 5; do echo '` + line + `' >>/workspace/.lattice/outbox.jsonl; done; ` + good
	)
	for _, tt := range []struct {
		name          string
		events, bytes int
		kept          int
		left          string
	}{
		{"too many", 3, 1000, 3, "said more events"},
		{"too much", 100, 40, 2, "said more events"},
		{"just enough", 5, 75, 5, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.session = session.New(w.client, session.Options{
				Log: zerolog.Nop(), Output: func(_, _ string) io.Writer { return &w.output }, MaxEvents: tt.events, MaxEventBytes: tt.bytes,
			})
			out, events := w.must(shell(manifests.ClassWorld, flood))
			if !out.Result.OK || len(events) != tt.kept || !strings.Contains(w.output.String(), tt.left) || tt.left == "" && w.output.String() != "" {
				t.Errorf("Call = %+v with %d events, want %d; output %q, want %q", out, len(events), tt.kept, &w.output, tt.left)
			}
		})
	}
}

// TestFloodBeforeResult has strangers say more than one call may before the call's own record, which is found all the same.
func TestFloodBeforeResult(t *testing.T) {
	w := newWorld(t)
	w.session = session.New(w.client, session.Options{Log: zerolog.Nop(), MaxEvents: 3})
	const line = `{"event_type":"INFO","timestamp":"2026-01-01T00:00:00Z","payload":{"message":"x"}}`
	w.sh(`mkdir -p /workspace/.lattice; seq 50 | sed 's/.*/` + line + `/' >>/workspace/.lattice/outbox.jsonl`)
	w.must(shell(manifests.ClassSprite, `note INFO r9 '{"message":"r","kind":"result","metadata":{"ok":true,"skill":"shell","data":{"n":1}}}'; `+good))
	c := shell(manifests.ClassWorld, "exit 1")
	c.Uncertain = true
	out, events := w.must(c)
	if out.Kind != lattice.Finished || string(out.Result.Data) != `{"n":1}` || len(events) != 3 {
		t.Errorf("Call = %+v with %d events, want the recorded result and 3 events", out, len(events))
	}
}

func keys(events []lattice.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Dedupe)
	}
	return out
}

func TestCursor(t *testing.T) {
	w := newWorld(t)
	const program = `echo '{"event_type":"INFO","timestamp":"2026-01-01T00:00:00Z","payload":{"message":"same"}}' >>/workspace/.lattice/outbox.jsonl; ` + good
	c := shell(manifests.ClassWorld, program)
	_, first := w.must(c)
	_, second := w.must(c)
	if len(first) != 1 || len(second) != 1 || first[0].Dedupe == second[0].Dedupe {
		t.Fatalf("equal events of two calls have keys %q and %q", keys(first), keys(second))
	}
	pair, err := w.session.Checkpoint(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	_, third := w.must(c)
	if err := w.session.Restore(t.Context(), "s", pair); err != nil {
		t.Fatal(err)
	}
	c.ID, c.Input = "call-2", []byte(good)
	_, again := w.must(c)
	if got, want := keys(again), append(keys(first), keys(second)...); !slices.Equal(got, want) {
		t.Errorf("after a restore the keys are %q, want %q", got, want)
	}
	_, none := w.must(c)
	if len(none) != 0 {
		t.Errorf("nothing new was said, and came as %q", keys(none))
	}
	w.sh(`sed -i s/same/other/ /workspace/.lattice/outbox.jsonl`)
	_, rewritten := w.must(c)
	if len(rewritten) != 2 || rewritten[0].Dedupe == first[0].Dedupe {
		t.Errorf("a rewritten outbox gave %q", keys(rewritten))
	}
	if len(third) != 1 {
		t.Errorf("third call gave %q", keys(third))
	}
}
