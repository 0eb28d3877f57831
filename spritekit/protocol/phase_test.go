package protocol

import (
	"encoding/json"
	"testing"
)

// The payloads that are written by hand are what encoding/json writes.
func TestPhasesAreWrittenAsJSON(t *testing.T) {
	for _, name := range []string{"fs.read", "", `a "b" \ <&>`, "ä\n\x01\u2028", "\xff"} {
		for _, p := range []Payload{PhaseStarted{Phase: name}, PhaseFinished{Phase: name}, PhaseFinished{Phase: name, Success: true}} {
			e, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			plain, err := json.Marshal(p)
			if err != nil || json.Unmarshal(plain, &want) != nil || json.Unmarshal(e.Payload, &got) != nil {
				t.Fatalf("New(%+v) = %s, %v", p, e.Payload, err)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("New(%+v) = %s, want %s", p, e.Payload, plain)
			}
		}
	}
}
