package engine_test

import (
	"bytes"
	"testing"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// FuzzDecodeState: what is decoded is encoded in one way, and any other text is refused.
func FuzzDecodeState(f *testing.F) {
	c := begin(f, graphOf("p", `{"id":"p","op":"PARALLEL","branches":[`+branch("a", "x", call("x", "m.read", ""))+`]}`, ``))
	c.prepare()
	raw, err := c.s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(raw))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := runstate.Decode(data)
		if err != nil {
			return
		}
		once, err := s.Encode()
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		again, err := runstate.Decode(once)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("encoded once:\n%s\ntwice:\n%s, %v", once, twice, err)
		}
	})
}

// FuzzStep feeds facts of any content to a run under way: they are refused, or lead to a state that holds together.
func FuzzStep(f *testing.F) {
	for _, seed := range []struct{ kind, body string }{
		{"CallFinished", `{"command_id":"e0.2.call@p[0]","ok":true,"data":{"n":1}}`}, {"CallSuspended", `{"command_id":"e0.2.call@p[0]","checkpoint_id":"v1"}`},
		{"CallLost", `{"command_id":"e0.3.call@p[1]"}`}, {"TimerFired", `{"command_id":"run.timeout"}`}, {"Answered", `{"wait_id":"w"}`}, {"CancelRequested", `{}`},
	} {
		f.Add(seed.kind, []byte(seed.body))
	}
	start := begin(f, graphOf("p", `{"id":"p","op":"PARALLEL","branches":[`+branch("a", "x", call("x", "m.read", ""))+","+branch("b", "y", call("y", "m.read", ""))+`]}`, ``))
	start.prepare()
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		fact, err := lattice.DecodeFact(kind, body)
		if err != nil {
			return
		}
		next, _, err := engine.Step(start.p, start.s, fact)
		if err != nil {
			return
		}
		raw, err := next.Encode()
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		if _, err := runstate.Decode(raw); err != nil {
			t.Fatalf("decode: %v", err)
		}
	})
}
