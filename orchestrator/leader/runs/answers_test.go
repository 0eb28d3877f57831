package runs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	form := lattice.Wait{ID: "w", Kind: lattice.WaitSkill, Node: "n", Expected: map[string]string{
		"approved": "boolean", "comments": "string", "count": "integer", "labels": "array<string>", "extra": "map"}, Optional: []string{"comments"}}
	yes := lattice.Wait{ID: "w", Kind: lattice.WaitHuman, Expected: map[string]string{"approved": "boolean", "comments": "string"}}
	push := lattice.Wait{ID: "w", Kind: lattice.WaitAction}
	lost := lattice.Wait{ID: "w", Kind: lattice.WaitUnknown, Expected: map[string]string{"outcome": "string"}, Choices: []string{"done", "retry", "fail"}}
	for _, tt := range []struct {
		name string
		wait lattice.Wait
		req  api.DecideRequest
		want string // inputs, or part of the refusal behind "!"
	}{
		{"approve an action", push, api.DecideRequest{Decision: lattice.Approve}, ""},
		{"answer an action", push, api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"a": "b"}}, "!approved or rejected"},
		{"approve with inputs", yes, api.DecideRequest{Decision: lattice.Approve, Inputs: map[string]string{"a": "b"}}, "!take no inputs"},
		{"approve a yes or no", yes, api.DecideRequest{Decision: lattice.Approve}, ""},
		{"approve a lost call", lost, api.DecideRequest{Decision: lattice.Approve}, "!outcome (string)"},
		{"settle a lost call", lost, api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"outcome": "retry"}}, `{"outcome":"retry"}`},
		{"settle it with another word", lost, api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"outcome": "maybe"}}, "!one of done, retry, fail"},
		{"a whole form", form, api.DecideRequest{Decision: lattice.Answer,
			Inputs: map[string]string{"approved": "yes", "count": "3", "labels": "a,b"}, Typed: json.RawMessage(`{"extra":{"k":1}}`)},
			`{"approved":true,"count":3,"extra":{"k":1},"labels":["a","b"]}`},
		{"every fault at once", form, api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"approved": "perhaps", "count": "3.5", "new": "x"}},
			"!approved must be boolean, not \"perhaps\"; count must be integer, not \"3.5\"; new is not expected; extra (map) is missing; labels (array<string>) is missing"},
		{"typed values are checked", form, api.DecideRequest{Decision: lattice.Answer, Typed: json.RawMessage(`{"labels":["a",1]}`)}, "!labels must be array<string>"},
		{"typed values are an object", form, api.DecideRequest{Decision: lattice.Answer, Typed: json.RawMessage(`[1]`)}, "!not a JSON object"},
		{"no such decision", yes, api.DecideRequest{Decision: "perhaps"}, "!not a decision"},
		{"too large", lattice.Wait{Kind: lattice.WaitSkill, Expected: map[string]string{"s": "string"}},
			api.DecideRequest{Decision: lattice.Answer, Inputs: map[string]string{"s": strings.Repeat("x", maxAnswer)}}, "!at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := makeAnswer(tt.wait, tt.req)
			if want, refused := strings.CutPrefix(tt.want, "!"); refused {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("answer() = %v, want a refusal that says %q", err, want)
				}
				return
			}
			if err != nil || string(got.Inputs) != tt.want {
				t.Errorf("answer() = %s, %v, want %s", got.Inputs, err, tt.want)
			}
		})
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	for kind, values := range map[string][2]string{ // one that fits, one that does not
		"string": {`"a"`, `1`}, "boolean": {`true`, `"true"`}, "integer": {`3`, `3.5`}, "number": {`3.5`, `"3"`}, "map": {`{}`, `[]`},
		"array": {`[1,"a"]`, `{}`}, "array<integer>": {`[1,2]`, `[1,"2"]`}, "array<array<string>>": {`[["a"],[]]`, `["a"]`},
	} {
		for i, raw := range values {
			var v any
			if err := json.Unmarshal([]byte(raw), &v); err != nil {
				t.Fatal(err)
			}
			if got, want := fitsType(v, kind), i == 0; got != want {
				t.Errorf("fits(%s, %s) = %t, want %t", raw, kind, got, want)
			}
		}
	}
}
