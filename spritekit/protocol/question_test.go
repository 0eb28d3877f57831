package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// TestAsked: only the legacy forms ask, and what was relayed from them with their mark; hostile members are left out.
func TestAsked(t *testing.T) {
	asks := func(q protocol.Question) *protocol.Question { return &q }
	for _, tt := range []struct {
		name, line string
		want       *protocol.Question
	}{
		{"question", `{"type":"question","prompt":"Which?","choices":["a","b"],"default":"b"}`,
			asks(protocol.Question{Kind: "question", Prompt: "Which?", Choices: []string{"a", "b"}, Default: "b"})},
		{"with an id", `{"type":"question","prompt":"Which?","id":"db.name"}`, asks(protocol.Question{Kind: "question", ID: "db.name", Prompt: "Which?"})},
		{"an id that is no name", `{"type":"question","prompt":"Which?","id":"../x"}`, asks(protocol.Question{Kind: "question", Prompt: "Which?"})},
		{"numbers", `{"type":"question","prompt":"How many?","choices":[1,2],"default":2}`,
			asks(protocol.Question{Kind: "question", Prompt: "How many?", Choices: []string{"1", "2"}, Default: "2"})},
		{"default that is no choice", `{"type":"question","prompt":"?","choices":["a"],"default":"z"}`,
			asks(protocol.Question{Kind: "question", Prompt: "?", Choices: []string{"a"}})},
		{"odd members", `{"type":"question","prompt":"?","choices":{"a":1},"default":null,"metadata":7}`, asks(protocol.Question{Kind: "question", Prompt: "?"})},
		{"too many choices", `{"type":"question","prompt":"?","choices":["x"` + strings.Repeat(`,"x"`, 64) + `]}`, asks(protocol.Question{Kind: "question", Prompt: "?"})},
		{"nothing but its type", `{"type":"question"}`, asks(protocol.Question{Kind: "question", Prompt: "question"})},
		{"blocked", `{"type":"blocked","reason":"no key"}`, asks(protocol.Question{Kind: "blocked", Prompt: "no key"})},
		{"marked v1", `{"event_type":"INFO","payload":{"message":"?","kind":"question","metadata":{"legacy":true,"default":"a"}}}`,
			asks(protocol.Question{Kind: "question", Prompt: "?", Default: "a"})},
		{"v1", `{"event_type":"INFO","payload":{"message":"?","kind":"question"}}`, nil},
		{"v1 that speaks of it", `{"event_type":"INFO","payload":{"message":"\"legacy\"","kind":"question","metadata":{"legacy":"true"}}}`, nil},
		{"progress", `{"type":"progress","message":"half"}`, nil},
		{"another type", `{"event_type":"ARTIFACT","payload":{"kind":"question","ref":"legacy","metadata":{"legacy":true}}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _, ok := protocol.Decode([]byte(tt.line))
			if !ok {
				t.Fatalf("Decode(%s) refuses", tt.line)
			}
			got, ok := protocol.Asked(e)
			if tt.want == nil {
				if ok {
					t.Fatalf("Asked = %+v, want none", got)
				}
				return
			}
			if diff := cmp.Diff(*tt.want, got); !ok || diff != "" {
				t.Fatalf("Asked, %t (-want +got):\n%s", ok, diff)
			}
			payload, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			again, ok := protocol.Asked(protocol.Event{Type: protocol.TypeInfo, Payload: encoded(t, protocol.MarkLegacy(payload.(protocol.Info)))})
			if diff := cmp.Diff(got, again); !ok || diff != "" {
				t.Fatalf("Asked of the marked one, %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestAskedIsBounded: a prompt of any length is cut, between letters.
func TestAskedIsBounded(t *testing.T) {
	e, _, _ := protocol.Decode([]byte(`{"type":"question","prompt":"` + strings.Repeat("ä", 20000) + `"}`))
	if q, ok := protocol.Asked(e); !ok || len(q.Prompt) > 8200 || !strings.HasSuffix(q.Prompt, "ä…") {
		t.Fatalf("Asked = %d bytes, %t", len(q.Prompt), ok)
	}
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
