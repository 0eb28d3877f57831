package protocol_test

import (
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

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
