package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// patient is a skill that waits for a time, and ends when it is resumed.
type patient struct {
	until   time.Time
	resumed []lattice.Call
}

func (p *patient) Call(_ context.Context, c lattice.Call, _ func(lattice.Event)) (lattice.Outcome, error) {
	if c.Resume == nil {
		w := &protocol.Waiting{Reason: "the quota is used up", ResumeAt: p.until.UTC().Format(time.RFC3339)}
		return lattice.Outcome{Kind: lattice.Suspended, Result: protocol.Result{OK: true, Waiting: w}}, nil
	}
	p.resumed = append(p.resumed, c)
	return lattice.Outcome{Kind: lattice.Finished, Result: noResult}, nil
}

// A call that waits for a time goes on then, in the process that waits and in any later one, and earlier if a person says so.
func TestACallWaitsForATime(t *testing.T) {
	const m = time.Minute
	begun := time.Unix(1_800_000_000, 0)
	decide := func(d lattice.Decision) *lattice.Answered { return &lattice.Answered{Decision: d, By: "ada"} }
	for _, tc := range []struct {
		name   string
		while  func(*clocks)
		answer *lattice.Answered
		again  bool          // a new process drives on
		left   time.Duration // 0: it goes on
		inputs string        // with which the call is resumed
	}{
		{"nothing happens", func(*clocks) {}, nil, false, 50 * m, ""},
		{"a part of it passes", func(c *clocks) { c.pass(20 * m) }, nil, false, 30 * m, ""},
		{"all of it passes", func(c *clocks) { c.pass(50 * m) }, nil, false, 0, "{}"},
		{"the machine sleeps over its end", func(c *clocks) { c.sleep(99 * m) }, nil, false, 0, "{}"},
		{"the clock is set forward over its end", func(c *clocks) { c.set(99 * m) }, nil, false, 0, "{}"},
		{"the clock is set back", func(c *clocks) { c.set(-99 * m) }, nil, false, 60 * m, ""},
		{"no process drives it at its end", func(c *clocks) { c.restart(99 * m) }, nil, true, 0, "{}"},
		{"no process drives it for a while", func(c *clocks) { c.restart(20 * m) }, nil, true, 30 * m, ""},
		{"a person approves", func(*clocks) {}, decide(lattice.Approve), false, 0, `{"approved":true,"comments":""}`},
		{"a person answers", func(*clocks) {}, decide(lattice.Answer), true, 0, `{}`},
		{"a person rejects", func(c *clocks) { c.restart(20 * m) }, decide(lattice.Reject), true, 0, `{"approved":false,"comments":""}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"n","limits":{"timeout_s":60},"edges":[],
				"nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{},"timeout_s":5}]}`))
			w, c, skill := newWorld(-1), &clocks{wall: begun}, &patient{until: begun.Add(50 * m)}
			deps := c.in(w.deps())
			deps.Caller = skill
			r := loaded(t, p, w, deps)
			if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
				t.Fatal(err)
			}
			stop, err := r.Run(t.Context())
			if err != nil || stop.Status != lattice.Waiting || !lattice.AllTimed(stop.Waits) || !stop.Due.Equal(skill.until) {
				t.Fatalf("Run = %+v, %v", stop, err)
			}
			tc.while(c)
			if tc.again {
				r = loaded(t, p, w, deps)
			}
			if tc.answer != nil {
				tc.answer.WaitID = stop.Waits[0].ID
				if err := r.Decide(t.Context(), *tc.answer); err != nil {
					t.Fatal(err)
				}
			}
			stop, err = r.Run(t.Context())
			if err != nil || stop.Left != tc.left || (tc.left == 0) != (stop.Status == lattice.Succeeded) {
				t.Fatalf("Run = %+v, %v; want %v left", stop, err, tc.left)
			}
			if tc.left > 0 {
				return
			}
			if len(skill.resumed) != 1 || skill.resumed[0].Attempt != 1 || string(skill.resumed[0].Resume.Inputs) != tc.inputs {
				t.Errorf("resumed with %+v", skill.resumed)
			}
		})
	}
	t.Run("a person cancels", func(t *testing.T) {
		p := parse(t, []byte(`{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"TOOL_CALL","tool":"m.read","args":{}}],"edges":[]}`))
		w, c, skill := newWorld(-1), &clocks{wall: begun}, &patient{until: begun.Add(50 * m)}
		deps := c.in(w.deps())
		deps.Caller = skill
		r := loaded(t, p, w, deps)
		if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Cancel(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		if s := r.State(); s.Status != lattice.Canceled || len(s.Pending) > 0 || len(skill.resumed) > 0 {
			t.Errorf("canceled, the run is %s, waits for %v, and resumed %v", s.Status, s.Pending, skill.resumed)
		}
	})
}
