package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestOutline keeps every fact and the events next to one, and leaves out the many between; another run's are not there.
func TestOutline(t *testing.T) { eachDriver(t, testOutline) }

func testOutline(t *testing.T, at func(t testing.TB) string) {
	for _, tt := range []struct {
		name, log string // f and e in their order
		after     lattice.Seq
		near      int
		want      string
	}{
		{"empty", "", 0, 2, ""},
		{"few events", "feef", 0, 2, "f1 e2 e3 f4"},
		{"no event twice", "feeeef", 0, 3, "f1 e2 e3 e4 e5 f6"},
		{"many between facts", "feeeeeeef", 0, 2, "f1 e2 e3 e7 e8 f9"},
		{"very many between facts", "f" + strings.Repeat("e", 100) + "f", 0, 1, "f1 e2 e101 f102"},
		{"many at either end", "eeeeefeeeee", 0, 1, "e1 e5 f6 e7 e11"},
		{"behind a place", "fefeeee", 3, 1, "e4 e7"},
		{"facts alone", "feeefe", 0, 0, "f1 f5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, at(t))
			create(t, s, "run_1", "run_2")
			var entries []lattice.Entry
			for n, kind := range tt.log {
				if kind == 'f' {
					entries = append(entries, fact("run_1", `{}`))
				} else {
					entries = append(entries, event("run_1", fmt.Sprint(n)))
				}
			}
			if _, err := s.Append(t.Context(), "run_1", 0, entries); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), "run_2", 0, []lattice.Entry{fact("run_2", `{}`)}); err != nil {
				t.Fatal(err)
			}
			found, err := s.Outline("run_1", tt.after, tt.near)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range found {
				got = append(got, fmt.Sprint(string(e.Kind[0]), e.Seq))
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("Outline = %q, want %q", text, tt.want)
			}
		})
	}
}

// TestEvents finds events by their type, and is not misled by what a body says.
func TestEvents(t *testing.T) { eachDriver(t, testEvents) }

func testEvents(t *testing.T, at func(t testing.TB) string) {
	s := open(t, at(t))
	create(t, s, "run_1", "run_2")
	artifact, other, misleading := event("run_1", "1"), event("run_2", "1"), event("run_1", "2")
	artifact.Type, other.Type, misleading.Body = "ARTIFACT", "ARTIFACT", json.RawMessage(`{"type":"ARTIFACT"}`)
	if _, err := s.Append(t.Context(), "run_1", 0, []lattice.Entry{fact("run_1", `{}`), misleading, artifact, event("run_1", "3")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "run_2", 0, []lattice.Entry{other}); err != nil {
		t.Fatal(err)
	}
	escaped := event("run_1", "4")
	escaped.Type, escaped.Body = "ARTIFACT", json.RawMessage(`{"kind":"\u0072eport"}`)
	plain := event("run_1", "5")
	plain.Type, plain.Body = "ARTIFACT", json.RawMessage(`{"kind":"report"}`)
	if _, err := s.Append(t.Context(), "run_1", 4, []lattice.Entry{escaped, plain}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		part  string
		after lattice.Seq
		want  string
	}{
		{"", 0, "[3 6 7] 7"},
		{"", 3, "[6 7] 7"},
		{"report", 0, "[6 7] 7"},
		{"", 7, "[] 7"},
	} {
		found, last, err := s.Events("run_1", "ARTIFACT", tt.part, tt.after)
		var seqs []lattice.Seq
		for _, e := range found {
			seqs = append(seqs, e.Seq)
		}
		if got := fmt.Sprint(seqs, last); err != nil || got != tt.want {
			t.Errorf("Events with %q behind %d = %s, %v, want %s", tt.part, tt.after, got, err, tt.want)
		}
	}
}
