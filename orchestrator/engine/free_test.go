package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// asker asks for actions and waits for none of them.
type asker struct {
	*world
	actions []string
}

func (a asker) Call(_ context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	for n, name := range a.actions {
		payload := fmt.Appendf(nil, `{"action":%q,"parameters":{"n":%d},"blocking":false}`, name, n)
		event(lattice.Event{
			Sprite: c.Sprite, CallID: c.ID, Dedupe: fmt.Sprint(c.ID, n),
			Event: protocol.Event{ProtocolVersion: "v1", Type: protocol.TypeActionRequest, CallID: c.ID, Payload: payload, Raw: payload},
		})
	}
	return lattice.Outcome{Kind: lattice.Finished, Result: noResult}, nil
}

// What a call asks for without waiting is done where policy allows it, a bounded number of times, and noted.
func TestActionsOfNoWait(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = "allow"
	}
	for _, tt := range []struct {
		name    string
		actions []string
		done    int
		notes   int
		last    string
	}{
		{"allowed", []string{"allow"}, 1, 1, "done"},
		{"to be asked", []string{"allow", "ask"}, 1, 2, "not done: it needs a person's approval"},
		{"denied", []string{"deny"}, 0, 1, "because"},
		{"without end", many, 256, 257, "not done: one call may ask for 256 actions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(-1)
			deps := w.deps()
			deps.Caller = asker{w, tt.actions}
			p := flowOf(t, []string{"read"})
			r, err := driver.Load(deps, p, "run_1", []byte("secret"), replay.History{})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
				t.Fatal(err)
			}
			if stop, err := r.Run(t.Context()); err != nil || stop.Status != lattice.Succeeded {
				t.Fatalf("Run = %+v, %v", stop, err)
			}
			var notes []lattice.ActionNoted
			begun := 0
			for _, e := range w.log {
				var noted lattice.ActionNoted
				if e.Type != "ActionNoted" {
					continue
				}
				if err := json.Unmarshal(e.Body, &noted); err != nil {
					t.Fatal(err)
				}
				if noted.Begun {
					begun++
					continue
				}
				notes = append(notes, noted)
			}
			if begun != tt.done {
				t.Errorf("%d actions were noted before they were done, want %d", begun, tt.done)
			}
			if len(w.actions) != tt.done || len(notes) != tt.notes || !strings.HasPrefix(notes[len(notes)-1].Detail, tt.last) {
				t.Errorf("%d actions were done and %d noted, the last as %+v; want %d, %d, %q", len(w.actions), len(notes), notes[len(notes)-1], tt.done, tt.notes, tt.last)
			}
		})
	}
}
