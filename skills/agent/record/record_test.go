package record

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/adapter"
)

func event(kind string, pairs ...any) adapter.Event {
	e := adapter.Event{Kind: kind, Fields: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		e.Fields[pairs[i].(string)] = pairs[i+1]
	}
	return e
}

func TestARecordIsReadable(t *testing.T) {
	r := New("you: before")
	for _, e := range []adapter.Event{
		event("start", "session", "s"), event("text", "text", "I lo", "delta", true), event("text", "text", "ok", "delta", true), event("usage", "input", 7.0),
		event("tool_call", "name", "sh", "input", map[string]any{"command": "ls"}), event("tool_result", "failed", false), event("text", "text", "it ", "delta", true),
		event("tool_call", "name", "cat"), event("tool_result", "failed", true), event("text", "text", "whole"), event("text", "text", "again"), event("end"),
	} {
		r.Add(e)
	}
	r.AddOutput(" plain \n")
	want := "you: before\nyou: I look\nyou used the tool sh: {\"command\":\"ls\"}\nyou: it \nyou used the tool cat: \nthe tool failed\nyou: whole\nyou: again\nplain"
	if r.String() != want {
		t.Errorf("record %q, want %q", r, want)
	}
	if got := Prompt("task", r.String(), "go on"); !strings.HasPrefix(got, "task\n\n") || !strings.Contains(got, want) || !strings.HasSuffix(got, "go on") {
		t.Errorf("Prompt = %q", got)
	}
	if got := Prompt("task", "", "go on"); got != "task" {
		t.Errorf("Prompt without a record = %q, want the task", got)
	}
}

// The newest part of a long record is kept, from the beginning of a line on.
func TestARecordIsBounded(t *testing.T) {
	r := New("")
	for range 3000 {
		r.Add(event("text", "text", strings.Repeat("é", 40)))
		if len(r.String()) > MaxText {
			t.Fatalf("the record has %d bytes", len(r.String()))
		}
	}
	r.Add(event("text", "text", strings.Repeat("x", 3*MaxText)))
	r.Add(event("text", "text", "the last"))
	if got := r.String(); len(got) > MaxText || !strings.HasPrefix(got, omitted) || !strings.HasSuffix(got, "the last") {
		t.Errorf("the record has %d bytes, begins with %.40q and ends with %.40q", len(got), got, got[len(got)-40:])
	}
}

// TestALongLineIsKept checks that a line longer than a record loses only its beginning if a newline follows.
func TestALongLineIsKept(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"\n", "\nthe end", "\na\nb\n"} {
		r := New("")
		r.Add(event("text", "text", strings.Repeat("x", 2*MaxText)+after))
		if got := r.String(); len(got) < MaxText/2 || len(got) > MaxText || !strings.HasPrefix(got, omitted) || !strings.HasSuffix(got, "x"+after) {
			t.Errorf("before %q, the record has %d bytes and begins with %.40q", after, len(got), got)
		}
	}
}
