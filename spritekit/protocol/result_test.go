package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestDecodeResult(t *testing.T) {
	tests := []struct {
		line string
		want protocol.Result
	}{
		{`{"ok":true,"skill":"fs.read","data":{"n":1.0},"warnings":[],"events":2}`,
			protocol.Result{OK: true, Skill: "fs.read", Data: json.RawMessage(`{"n":1.0}`), Events: 2}},
		{` {"ok":true , "skill":"x", "error":null, "later":[1]} `, protocol.Result{OK: true, Skill: "x"}},
		{`{"ok":true,"skill":"x","data":{},"warnings":[{"code":"c","message":"m"}],"call_id":"call_1","events":0}`,
			protocol.Result{OK: true, Skill: "x", Data: json.RawMessage(`{}`), CallID: "call_1",
				Warnings: []protocol.Warning{{Code: "c", Message: "m"}}}},
		{`{"ok":false,"skill":"x","error":{"code":"c","message":"m","hint":"h","retryable":true,"details":{"a":1}}}`,
			protocol.Result{Skill: "x", Error: &protocol.Fault{Code: "c", Message: "m", Hint: "h", Retryable: true,
				Details: json.RawMessage(`{"a":1}`)}}},
		{`{"ok":true,"skill":"x","waiting":{"reason":"r","checkpoint_id":"v1","expected_inputs":{"a":"map"}},"events":3}`,
			protocol.Result{OK: true, Skill: "x", Events: 3, Waiting: &protocol.Waiting{Reason: "r", CheckpointID: "v1",
				ExpectedInputs: map[string]string{"a": "map"}}}},
		{`{"ok":true,"skill":"x","waiting":{"reason":"r","checkpoint_id":""}}`,
			protocol.Result{OK: true, Skill: "x", Waiting: &protocol.Waiting{Reason: "r"}}},
	}
	for _, tt := range tests {
		got, ok := protocol.DecodeResult([]byte(tt.line))
		if diff := cmp.Diff(tt.want, got); !ok || diff != "" {
			t.Errorf("DecodeResult(%s): ok %v (-want +got):\n%s", tt.line, ok, diff)
		}
	}
}

func TestDecodeResultRefuses(t *testing.T) {
	for _, line := range []string{
		``, `ok`, `[]`, `true`, `{}`, `{"ok":true}`, `{"skill":"x"}`, `{"ok":"true","skill":"x"}`, `{"ok":1,"skill":"x"}`,
		`{"ok":true,"skill":""}`, `{"ok":true,"skill":7}`, `{"ok":null,"skill":"x"}`, `{"OK":true,"skill":"x"}`,
		`{"ok":true,"skill":"x"} tail`, `{"ok":true,"skill":"x"`,
		`{"ok":true,"ok":false,"skill":"x","error":{"code":"c","message":"m"}}`,
		`{"ok":true,"skill":"x","data":5}`,
		`{"ok":true,"skill":"x","data":{},"waiting":{"reason":"r"}}`,
		`{"ok":true,"skill":"x","error":{"code":"c","message":"m"}}`,
		`{"ok":true,"skill":"x","waiting":{}}`,
		`{"ok":true,"skill":"x","waiting":[]}`,
		`{"ok":true,"skill":"x","waiting":{"reason":"r","expected_inputs":{"a":"number"}}}`,
		`{"ok":false,"skill":"x"}`,
		`{"ok":false,"skill":"x","error":"text"}`,
		`{"ok":false,"skill":"x","error":{"message":"m"}}`,
		`{"ok":false,"skill":"x","error":{"code":"","message":"m"}}`,
		`{"ok":false,"skill":"x","error":{"code":"c"}}`,
		`{"ok":false,"skill":"x","error":{"code":"c","message":"m","retryable":"no"}}`,
		`{"ok":false,"skill":"x","error":{"code":"c","message":"m"},"data":{}}`,
		`{"ok":true,"skill":"x","warnings":{}}`,
		`{"ok":true,"skill":"x","warnings":["w"]}`,
		`{"ok":true,"skill":"x","events":-1}`,
		`{"ok":true,"skill":"x","events":"2"}`,
	} {
		if got, ok := protocol.DecodeResult([]byte(line)); ok {
			t.Errorf("DecodeResult(%s) = %+v, want a refusal", line, got)
		}
	}
}
