package answer

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/spritekit/lattice/skills/agent/schema"
)

func TestAnswersAreFoundAndChecked(t *testing.T) {
	t.Parallel()
	answers := Schema{Match: func(_ context.Context, c Comparison) (v Verdict, err error) {
		v.NoSchema, v.Mismatch = schema.Match(c.Schema, c.Value)
		return v, nil
	}}
	answers.JSON = json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
	if err := answers.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		final string
		want  string // "" for none
	}{
		"alone":           {`{"n":1}`, `{"n":1}`},
		"block":           {"I think so.\n\n```json\n{\"n\": 2}\n```\n", `{"n":2}`},
		"after words":     {`Here it is: {"n":3}`, `{"n":3}`},
		"braces in words": {`A {curly} thing: {"n":4}`, `{"n":4}`},
		"code in it":      {"Done.\n```json\n{\"n\": 5, \"how\": \"```go\\nf()\\n```\"}\n```", `{"how":"` + "```go\\nf()\\n```" + `","n":5}`},
		"two blocks":      {"```json\n{\"n\": 6}\n```\nNo:\n```json\n{\"n\": 7}\n```", `{"n":7}`},
		"a long number":   {`{"n":9007199254740993}`, `{"n":9007199254740993}`},
		"none":            {"no", ""},
		"cut":             {`{"n":`, ""},
		"another type":    {`{"n":"x"}`, ""},
		"no object":       {"[1]", ""},
		"empty":           {"", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			value, err := answers.Read(nil, test.final)
			if test.want == "" {
				if err == nil {
					t.Errorf("structured(%q) = %v, want an error", test.final, value)
				}
				return
			}
			raw, _ := json.Marshal(value)
			if err != nil || string(raw) != test.want {
				t.Errorf("structured(%q) = %s, %v, want %s", test.final, raw, err, test.want)
			}
		})
	}
	answers.JSON = json.RawMessage(`{"type":7}`)
	if err := answers.Check(t.Context()); err == nil {
		t.Error("a schema that is none was taken")
	}
}
