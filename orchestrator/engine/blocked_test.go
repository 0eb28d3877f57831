package engine_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestBlocked: a legacy question stops the run, whatever the exit code; a fit answer ends it and names the next one.
func TestBlocked(t *testing.T) {
	choice := protocol.Question{Kind: "question", Prompt: "Which?", Choices: []string{"red", "blue"}, Default: "red"}
	named := choice
	named.ID = "colour"
	free := protocol.Question{Kind: "question", Prompt: "Why?"}
	for _, tt := range []struct {
		name     string
		question protocol.Question
		decision lattice.Decision
		inputs   string
		status   lattice.RunStatus
		want     map[string]string // nil: the answer does not fit
	}{
		{"choice", choice, lattice.Answer, `{"answer":"blue"}`, lattice.BlockedWaitingForUser, map[string]string{"answer": "blue", "Which?": "blue"}},
		{"default", choice, lattice.Answer, `{"answer":""}`, lattice.BlockedWaitingForUser, map[string]string{"answer": "red", "Which?": "red"}},
		{"by its id", named, lattice.Answer, `{"answer":"blue"}`, lattice.BlockedWaitingForUser, map[string]string{"colour": "blue"}},
		{"no choice", choice, lattice.Answer, `{"answer":"green"}`, lattice.BlockedWaitingForUser, nil},
		{"free", free, lattice.Answer, `{"answer":"because"}`, lattice.BlockedWaitingForUser, map[string]string{"answer": "because", "Why?": "because"}},
		{"empty", free, lattice.Answer, `{"answer":""}`, lattice.BlockedWaitingForUser, nil},
		{"no text", free, lattice.Answer, `{"answer":1}`, lattice.BlockedWaitingForUser, nil},
		{"approved", free, lattice.Approve, `{}`, lattice.BlockedWaitingForUser, nil},
		{"blocked", protocol.Question{Kind: "blocked", Prompt: "no key"}, lattice.Answer, `{"answer":"given"}`, lattice.Blocked, map[string]string{"answer": "given", "no key": "given"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := flowOf(t, []string{"read", "pack"})
			s := runstate.New("run_1")
			step := func(f lattice.Fact) error {
				next, _, err := engine.Step(p, s, f)
				s = next
				return err
			}
			for _, f := range []lattice.Fact{
				lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"},
				lattice.Prepared{CommandID: "e0.1.prepare"},
				lattice.CallBlocked{CommandID: "e0.2.call", CallID: "c", Exit: 1, Question: tt.question},
			} {
				if err := step(f); err != nil {
					t.Fatal(err)
				}
			}
			if s.Status != tt.status || len(s.Pending) > 0 || len(s.Waits) != 1 {
				t.Fatalf("after the question: %s, pending %v, waits %v; want %s and one wait", s.Status, s.Pending, s.Waits, tt.status)
			}
			a := lattice.Answered{WaitID: s.Waits[0].ID, Decision: tt.decision, Inputs: json.RawMessage(tt.inputs), By: "ada"}
			err := step(a)
			if tt.want == nil {
				if !errors.Is(err, engine.ErrAnswer) || len(s.Waits) != 1 {
					t.Fatalf("answer: %v with waits %v, want ErrAnswer and the wait open", err, s.Waits)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &runstate.Next{RunID: lattice.LinkedRun("run_1", a.WaitID), Answers: tt.want}
			if diff := cmp.Diff(want, s.Next); diff != "" || s.Status != lattice.Canceled || len(s.Waits) > 0 {
				t.Fatalf("after the answer: %s, waits %v, next (-want +got):\n%s", s.Status, s.Waits, diff)
			}
			if err := step(a); !errors.Is(err, engine.ErrStale) {
				t.Fatalf("second answer: %v, want ErrStale", err)
			}
		})
	}
}
