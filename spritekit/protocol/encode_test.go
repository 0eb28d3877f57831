package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func event(change func(*protocol.Event)) protocol.Event {
	e := protocol.Event{
		ProtocolVersion: "v1", Type: protocol.TypeInfo, EventID: "01KE0000000000000000000001", CallID: "call_1",
		SpriteID: "s1", WorkItemID: "issue-7", Timestamp: stamp, Payload: json.RawMessage(`{"message":"m"}`),
	}
	change(&e)
	return e
}

func TestEncodeGolden(t *testing.T) {
	tests := []struct {
		name   string
		change func(*protocol.Event)
		want   string
	}{
		{"all members", func(*protocol.Event) {},
			`{"protocol_version":"v1","event_type":"INFO","event_id":"01KE0000000000000000000001","call_id":"call_1","sprite_id":"s1","work_item_id":"issue-7","timestamp":"` + stamp + `","payload":{"message":"m"}}`},
		{"optional members empty", func(e *protocol.Event) {
			e.ProtocolVersion, e.EventID, e.CallID, e.SpriteID, e.WorkItemID = "", "", "", "", ""
		},
			`{"protocol_version":"v1","event_type":"INFO","sprite_id":"","work_item_id":"","timestamp":"` + stamp + `","payload":{"message":"m"}}`},
		{"text is not altered", func(e *protocol.Event) {
			e.EventID, e.CallID, e.SpriteID = "", "", "<s>&\"\\\n\x01€\u2028"
			e.Payload = json.RawMessage(" {\n \"message\" : \"<b> \\u00e9 \\/ &\", \"n\": 1.50E+3 }")
		},
			`{"protocol_version":"v1","event_type":"INFO","sprite_id":"<s>&\"\\\n\u0001€` + "\u2028" + `","work_item_id":"issue-7","timestamp":"` + stamp + `","payload":{"message":"<b> \u00e9 \/ &","n":1.50E+3}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := event(tt.change)
			got, err := protocol.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Encode differs (-want +got):\n%s", diff)
			}
			back, problems, ok := protocol.Decode(got)
			if !ok || len(problems) > 0 || string(back.Raw) != string(got) {
				t.Errorf("Decode(Encode(e)) = %s, %v, %v", back.Raw, problems, ok)
			}
			back.Raw, want.Payload, want.ProtocolVersion = nil, back.Payload, "v1"
			if diff := cmp.Diff(want, back); diff != "" {
				t.Errorf("Decode(Encode(e)) differs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeRefuses covers the envelope; TestPayloadRules has the payloads.
func TestEncodeRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*protocol.Event)
		want   string
	}{
		{"other version", func(e *protocol.Event) { e.ProtocolVersion = "v2" }, "/protocol_version"},
		{"no type", func(e *protocol.Event) { e.Type = "" }, "/event_type"},
		{"unknown type", func(e *protocol.Event) { e.Type = "FUTURE" }, "/event_type"},
		{"lower-case type", func(e *protocol.Event) { e.Type = "info" }, "/event_type"},
		{"event_id too short", func(e *protocol.Event) { e.EventID = "1" }, "/event_id"},
		{"event_id out of alphabet", func(e *protocol.Event) { e.EventID = "01KE000000000000000000000U" }, "/event_id"},
		{"event_id too large", func(e *protocol.Event) { e.EventID = "81KE0000000000000000000000" }, "/event_id"},
		{"sprite_id no UTF-8", func(e *protocol.Event) { e.SpriteID = "\xff" }, "/sprite_id"},
		{"no timestamp", func(e *protocol.Event) { e.Timestamp = "" }, "/timestamp"},
		{"eight digits", func(e *protocol.Event) { e.Timestamp = "2026-01-02T03:04:05.00000000Z" }, "/timestamp"},
		{"ten digits", func(e *protocol.Event) { e.Timestamp = "2026-01-02T03:04:05.0000000000Z" }, "/timestamp"},
		{"offset", func(e *protocol.Event) { e.Timestamp = "2026-01-02T03:04:05.000000000+00:00" }, "/timestamp"},
		{"comma", func(e *protocol.Event) { e.Timestamp = "2026-01-02T03:04:05,000000000Z" }, "/timestamp"},
		{"no payload", func(e *protocol.Event) { e.Payload = nil }, "/payload"},
		{"payload null", func(e *protocol.Event) { e.Payload = json.RawMessage(`null`) }, "/payload"},
		{"payload torn", func(e *protocol.Event) { e.Payload = json.RawMessage(`{"message":"m"`) }, "/payload"},
		{"payload no UTF-8", func(e *protocol.Event) { e.Payload = json.RawMessage("{\"message\":\"\xff\"}") }, "/payload"},
		{"too long", func(e *protocol.Event) {
			e.Payload = json.RawMessage(`{"message":"` + strings.Repeat("x", protocol.MaxLine) + `"}`)
		}, "readers take"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := protocol.Encode(event(tt.change))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Encode = %.100s, %v, want an error naming %s", got, err, tt.want)
			}
		})
	}
}

func TestEncodeNamesEveryBrokenRule(t *testing.T) {
	_, err := protocol.Encode(event(func(e *protocol.Event) {
		e.Timestamp, e.Type, e.Payload = "now", protocol.TypeWaiting, json.RawMessage(`{}`)
	}))
	for _, want := range []string{"/timestamp", "/payload/reason", "/payload/checkpoint_id"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Encode: %v, want it to name %s", err, want)
		}
	}
}
