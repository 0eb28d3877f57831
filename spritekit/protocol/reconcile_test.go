package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// ev is "name" for a foreign event, "name#id" for one with an id, "@t" its time in seconds or a text that is none.
func ev(t *testing.T, spec string) protocol.Event {
	t.Helper()
	spec, at, _ := strings.Cut(spec, "@")
	name, id, _ := strings.Cut(spec, "#")
	line := fmt.Sprintf(`{"event_type":"INFO","payload":{"message":%q}`, name)
	if id != "" {
		line += fmt.Sprintf(`,"event_id":%q`, id)
	}
	if len(at) == 2 {
		at = "2026-01-02T03:04:" + at + "Z"
	}
	if at != "" {
		line += fmt.Sprintf(`,"timestamp":%q`, at)
	}
	e, _, ok := protocol.Decode([]byte(line + "}"))
	if !ok {
		t.Fatalf("Decode(%s) refused", line)
	}
	return e
}

func evs(t *testing.T, specs string) []protocol.Event {
	var out []protocol.Event
	for _, spec := range strings.Fields(specs) {
		out = append(out, ev(t, spec))
	}
	return out
}

func show(t *testing.T, merged []protocol.Merged) string {
	var out []string
	for _, m := range merged {
		p, err := m.Event.Open()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(m.Source)+":"+p.(protocol.Info).Message)
	}
	return strings.Join(out, " ")
}

func TestReconcile(t *testing.T) {
	tests := []struct{ name, outbox, stream, want string }{
		{"nothing", "", "", ""},
		{"the stream broke off", "a#1@01 b#2@02 c#3@03", "a#1@01", "both:a outbox:b outbox:c"},
		{"the outbox is gone", "", "a#1@01 b#2@02", "stream:a stream:b"},
		{"ids identify, the outbox copy wins", "a#1@01", "x#1@09", "both:a"},
		{"an id twice in one source counts once", "a#1@01 a#1@01", "b#2@02 b#2@02", "outbox:a stream:b"},
		{"an id twice in both", "a#1@01 a#1@01", "a#1@01 a#1@01", "both:a"},
		{"equal content, other ids", "a#1@01 a#2@01", "a#2@01", "outbox:a both:a"},
		{"foreign events are a multiset: the larger count", "a@01 a@01 a@01", "a@01 a@01", "both:a both:a outbox:a"},
		{"the larger count may be the stream's", "a@01", "a@01 a@01", "both:a stream:a"},
		{"the seed's pair alone would lose one", "a@01 b@01", "", "outbox:a outbox:b"},
		{"ascending by instant", "c@03 a@01", "b@02", "outbox:a stream:b outbox:c"},
		{"stable, outbox first", "a@01 b@01", "c@01 b@01", "outbox:a both:b stream:c"},
		{"instants, not texts", "a@2026-01-02T04:00:00+01:00", "a@2026-01-02T03:00:00.0Z b@2026-01-02T02:59:59Z", "stream:b both:a"},
		{"without a time: after its predecessor", "a@01 x b@05", "c@03 y d@04", "outbox:a outbox:x stream:c stream:y stream:d outbox:b"},
		{"an unreadable time likewise", "a@01 x@soon b@05", "", "outbox:a outbox:x outbox:b"},
		{"without a time and predecessor: first", "b@05", "x a@01", "stream:x stream:a outbox:b"},
		{"foreign without a time match by content", "x y", "x x", "both:x outbox:y stream:x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := show(t, protocol.Reconcile(evs(t, tt.outbox), evs(t, tt.stream)))
			if got != tt.want {
				t.Errorf("Reconcile(%s | %s) = %s, want %s", tt.outbox, tt.stream, got, tt.want)
			}
		})
	}
}

func TestMergedJSON(t *testing.T) {
	got := protocol.Merged{Source: protocol.SourceBoth, Event: ev(t, "a#1")}.AppendJSON(nil)
	want := `{"source":"both","event":{"event_type":"INFO","payload":{"message":"a"},"event_id":"1"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("AppendJSON differs (-want +got):\n%s", diff)
	}
}

func TestDedupeKey(t *testing.T) {
	same := []string{
		`{"event_type":"INFO","timestamp":"2026-01-02T03:04:05Z","payload":{"message":"a/b","n":1.0}}`,
		`{"payload":{"n":1.0,"message":"\u0061\/b"},"timestamp":"2026-01-02T04:04:05.000+01:00","event_type":"INFO","sprite_id":"s"}`,
	}
	other := []string{
		`{"event_type":"INFO","timestamp":"2026-01-02T03:04:05Z","payload":{"message":"a/b","n":1}}`,
		`{"event_type":"INFO","timestamp":"2026-01-02T03:04:05.000000001Z","payload":{"message":"a/b","n":1.0}}`,
		`{"event_type":"NOTE","timestamp":"2026-01-02T03:04:05Z","payload":{"message":"a/b","n":1.0}}`,
		`{"event_id":"e","event_type":"INFO","timestamp":"2026-01-02T03:04:05Z","payload":{"message":"a/b","n":1.0}}`,
	}
	key := func(line string) string {
		e, _, ok := protocol.Decode([]byte(line))
		if !ok {
			t.Fatalf("Decode(%s) refused", line)
		}
		return protocol.DedupeKey(e)
	}
	if a, b := key(same[0]), key(same[1]); a != b {
		t.Errorf("keys differ: %s %s", a, b)
	}
	seen := map[string]string{key(same[0]): same[0]}
	for _, line := range other {
		if k := key(line); seen[k] != "" {
			t.Errorf("%s has the key of %s", line, seen[k])
		} else {
			seen[k] = line
		}
	}
}
