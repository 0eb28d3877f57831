package runs

import (
	"encoding/json"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

func TestSameInputs(t *testing.T) {
	t.Parallel()
	recorded := json.RawMessage(`{"count":3,"ok":true,"names":["a","b"],"text":"3"}`)
	for name, tt := range map[string]struct {
		inputs map[string]string
		typed  string
		want   bool
	}{
		"as text":       {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "text": "3"}, "", true},
		"as JSON":       {nil, `{"count":3,"ok":true,"names":["a","b"],"text":"3"}`, true},
		"mixed":         {map[string]string{"ok": "true", "text": "3"}, `{"count":3,"names":["a","b"]}`, true},
		"other value":   {map[string]string{"count": "4", "ok": "yes", "names": "a,b", "text": "3"}, "", false},
		"other JSON":    {nil, `{"count":3,"ok":true,"names":["b","a"],"text":"3"}`, false},
		"one missing":   {map[string]string{"count": "3", "ok": "yes", "names": "a,b"}, "", false},
		"one too many":  {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "text": "3", "more": "1"}, "", false},
		"another name":  {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "tekst": "3"}, "", false},
		"no JSON":       {nil, `[`, false},
		"another value": {nil, `{"count":"3","ok":true,"names":["a","b"],"text":"3"}`, false},
	} {
		d := api.DecideRequest{Inputs: tt.inputs, Typed: json.RawMessage(tt.typed)}
		if got := sameInputs(recorded, d, nil); got != tt.want {
			t.Errorf("%s: sameInputs = %t", name, got)
		}
	}
}

// A decision about one of several waits names it.
func TestOpenWait(t *testing.T) {
	t.Parallel()
	s := runstate.State{Waits: []lattice.Wait{{ID: "w1", Node: "a"}, {ID: "w2", Node: "b"}}}
	if w, err := openWait("run_1", s, "w2"); err != nil || w.Node != "b" {
		t.Errorf("openWait of w2 = %+v, %v", w, err)
	}
	if _, err := openWait("run_1", s, ""); fault.As(err) == nil || fault.As(err).Code != "several_waits" {
		t.Errorf("openWait = %v, want several_waits", err)
	}
}
