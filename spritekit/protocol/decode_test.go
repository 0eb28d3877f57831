package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

const stamp = "2026-01-02T03:04:05.000000006Z"

// Payloads that keep every rule, one per type.
const (
	goodAction   = `{"action":"NOTIFY_USER","parameters":{"title":"t"}}`
	goodWaiting  = `{"reason":"PR_REVIEW","checkpoint_id":"v1","expected_inputs":{"a":"array<array<map>>"}}`
	goodProposal = `{"observed_failure":{"phase":"b","exit_code":127,"stderr_hint":"h"},` +
		`"suggested_adjustment":{"type":"runtime_install","details":{"runtime":"node"}},` +
		`"confidence":0.85,"evidence":["e"],"scope":"repo_specific"}`
)

// TestPayloadRules breaks each rule of the specification once. Readers keep the event and name the rule by pointer;
// writers refuse it.
func TestPayloadRules(t *testing.T) {
	swap := func(in, old, new string) string {
		if !strings.Contains(in, old) {
			t.Fatalf("%s does not hold %s", in, old)
		}
		return strings.Replace(in, old, new, 1)
	}
	tests := []struct {
		typ, payload string
		want         string // pointer of the one broken rule, "" for none
	}{
		{"INFO", `{"message":"m"}`, ""},
		{"INFO", `{"message":""}`, ""},
		{"INFO", `{"message":"m","kind":null,"metadata":null}`, ""},
		{"INFO", `{"message":"m","kind":"never seen","metadata":{"a":[]},"more":1}`, ""},
		{"INFO", `{}`, "/payload/message"},
		{"INFO", `{"Message":"names are exact"}`, "/payload/message"},
		{"INFO", `{"message":null}`, "/payload/message"},
		{"INFO", `{"message":5}`, "/payload/message"},
		{"INFO", `{"message":"m","kind":5}`, "/payload/kind"},
		{"INFO", `{"message":"m","metadata":"x"}`, "/payload/metadata"},
		{"INFO", `{"message":"m","message":"n"}`, "/payload/message"},
		{"INFO", `[]`, "/payload"},
		{"INFO", `"m"`, "/payload"},
		{"PHASE_STARTED", `{"phase":"implement"}`, ""},
		{"PHASE_STARTED", `{}`, "/payload/phase"},
		{"PHASE_STARTED", `{"phase":1}`, "/payload/phase"},
		{"PHASE_FINISHED", `{"phase":"p","success":false}`, ""},
		{"PHASE_FINISHED", `{"success":true}`, "/payload/phase"},
		{"PHASE_FINISHED", `{"phase":"p"}`, "/payload/success"},
		{"PHASE_FINISHED", `{"phase":"p","success":"true"}`, "/payload/success"},
		{"ACTION_REQUEST", goodAction, ""},
		{"ACTION_REQUEST", `{"action":"A","parameters":{},"blocking":true}`, ""},
		{"ACTION_REQUEST", `{"action":"A","parameters":{},"blocking":null}`, ""},
		{"ACTION_REQUEST", `{"parameters":{}}`, "/payload/action"},
		{"ACTION_REQUEST", `{"action":"A"}`, "/payload/parameters"},
		{"ACTION_REQUEST", `{"action":"A","parameters":[]}`, "/payload/parameters"},
		{"ACTION_REQUEST", `{"action":"A","parameters":{"b":1,"b":2}}`, "/payload/parameters/b"},
		{"ACTION_REQUEST", `{"action":"A","parameters":{},"blocking":1}`, "/payload/blocking"},
		{"ARTIFACT", `{"kind":"branch","ref":"r","url":null,"metadata":{}}`, ""},
		{"ARTIFACT", `{"ref":"r"}`, "/payload/kind"},
		{"ARTIFACT", `{"kind":"pr","ref":12}`, "/payload/ref"},
		{"ARTIFACT", `{"kind":"pr","url":{}}`, "/payload/url"},
		{"ARTIFACT", `{"kind":"pr","metadata":[]}`, "/payload/metadata"},
		{"WAITING", goodWaiting, ""},
		{"WAITING", `{"reason":"r","checkpoint_id":"v1"}`, ""},
		{"WAITING", `{"checkpoint_id":"v1"}`, "/payload/reason"},
		{"WAITING", `{"reason":"r"}`, "/payload/checkpoint_id"},
		{"WAITING", `{"reason":"r","checkpoint_id":""}`, "/payload/checkpoint_id"},
		{"WAITING", `{"reason":"r","checkpoint_id":3}`, "/payload/checkpoint_id"},
		{"WAITING", `{"reason":"r","checkpoint_id":"v1","resume_at":"2026-11-23T14:00:00Z"}`, ""},
		{"WAITING", `{"reason":"r","checkpoint_id":"v1","resume_at":"in an hour"}`, "/payload/resume_at"},
		{"WAITING", `{"reason":"r","checkpoint_id":"v1","resume_at":1795429206}`, "/payload/resume_at"},
		{"WAITING", `{"reason":"r","checkpoint_id":"v1","expected_inputs":["a"]}`, "/payload/expected_inputs"},
		{"WAITING", swap(goodWaiting, "array<array<map>>", "number"), "/payload/expected_inputs/a"},
		{"WAITING", swap(goodWaiting, "array<array<map>>", "array<array<map>"), "/payload/expected_inputs/a"},
		{"WAITING", swap(goodWaiting, "array<array<map>>", "array<>"), "/payload/expected_inputs/a"},
		{"WAITING", swap(goodWaiting, "array<array<map>>", "array"), "/payload/expected_inputs/a"},
		{"WAITING", swap(goodWaiting, `"array<array<map>>"`, "null"), "/payload/expected_inputs/a"},
		{"WAITING", swap(goodWaiting, `"a":"array<array<map>>"`, `"a/b~":"x"`), "/payload/expected_inputs/a~1b~0"},
		{"COMPLETED", `{"status":"success"}`, ""},
		{"COMPLETED", `{"status":"failure","summary":"s"}`, ""},
		{"COMPLETED", `{}`, "/payload/status"},
		{"COMPLETED", `{"status":"ok"}`, "/payload/status"},
		{"COMPLETED", `{"status":true}`, "/payload/status"},
		{"COMPLETED", `{"status":"success","summary":1}`, "/payload/summary"},
		{"ERROR", `{"message":"m","details":{"exit_code":1}}`, ""},
		{"ERROR", `{"message":"m","details":"free"}`, ""},
		{"ERROR", `{"details":{}}`, "/payload/message"},
		{"ENVIRONMENT_PROPOSAL", goodProposal, ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `0`), ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `1.0`), ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `["e"]`, `[]`), ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `repo_specific`, `global_candidate`), ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `127`, `127.0`), ""},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"observed_failure"`, `"x"`), "/payload/observed_failure"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"phase"`, `"x"`), "/payload/observed_failure/phase"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"exit_code"`, `"x"`), "/payload/observed_failure/exit_code"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `127`, `12.5`), "/payload/observed_failure/exit_code"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `127`, `"127"`), "/payload/observed_failure/exit_code"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `127`, `1e999`), "/payload/observed_failure/exit_code"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"stderr_hint"`, `"x"`), "/payload/observed_failure/stderr_hint"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"suggested_adjustment"`, `"x"`), "/payload/suggested_adjustment"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `runtime_install`, `run_shell`), "/payload/suggested_adjustment/type"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"details"`, `"x"`), "/payload/suggested_adjustment/details"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `{"runtime":"node"}`, `"rm -rf"`), "/payload/suggested_adjustment/details"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"confidence"`, `"x"`), "/payload/confidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `1.01`), "/payload/confidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `-0.1`), "/payload/confidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `1e999`), "/payload/confidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `0.85`, `"0.85"`), "/payload/confidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"evidence"`, `"x"`), "/payload/evidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `["e"]`, `"e"`), "/payload/evidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `["e"]`, `["e",1]`), "/payload/evidence"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `repo_specific`, `everywhere`), "/payload/scope"},
		{"ENVIRONMENT_PROPOSAL", swap(goodProposal, `"scope"`, `"x"`), "/payload/scope"},
	}
	for _, adjust := range []string{"runtime_install", "runtime_version_adjust", "dependency_manager_switch", "add_preinstall_step",
		"adjust_smoke_command", "add_system_package", "enable_network_access", "escalate_to_human"} {
		tests = append(tests, struct{ typ, payload, want string }{
			"ENVIRONMENT_PROPOSAL", swap(goodProposal, "runtime_install", adjust), ""})
	}
	for _, tt := range tests {
		t.Run(tt.typ+tt.payload, func(t *testing.T) {
			line := fmt.Sprintf(`{"event_type":%q,"timestamp":%q,"payload":%s}`, tt.typ, stamp, tt.payload)
			e, problems, ok := protocol.Decode([]byte(line))
			if !ok || string(e.Raw) != line || string(e.Payload) != tt.payload || e.Legacy {
				t.Fatalf("Decode(%s) = %s, payload %s, legacy %v, ok %v", line, e.Raw, e.Payload, e.Legacy, ok)
			}
			var got string
			if len(problems) > 0 {
				got = problems[0].Pointer
			}
			if got != tt.want || len(problems) > 1 {
				t.Errorf("problems of %s = %v, want pointer %q", line, problems, tt.want)
			}
			if _, err := e.Open(); (err != nil) != (tt.want != "") {
				t.Errorf("Open: error %v, want one: %v", err, tt.want != "")
			}
			_, err := protocol.Encode(e)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want+" ") {
				t.Errorf("Encode: error %v, want one naming %q", err, tt.want)
			}
		})
	}
}

func TestOpenGivesTypedPayloads(t *testing.T) {
	for _, want := range []protocol.Payload{
		protocol.Info{Message: "<m> & \u2028 €", Kind: "progress", Metadata: json.RawMessage(`{"percent":75.0}`)},
		protocol.PhaseStarted{Phase: "test"},
		protocol.PhaseFinished{Phase: "test", Success: true},
		protocol.ActionRequest{Action: protocol.ActionOpenPR, Parameters: json.RawMessage(`{"title":"<t>"}`), Blocking: true},
		protocol.Artifact{Kind: "branch", Ref: "r", URL: "https://x/?a&b", Metadata: json.RawMessage(`{}`)},
		protocol.Waiting{Reason: "r", CheckpointID: "v1", ExpectedInputs: map[string]string{"ok": "boolean"}},
		protocol.Completed{Status: protocol.StatusFailure, Summary: "s"},
		protocol.Error{Message: "m", Details: json.RawMessage(`{"n":1}`)},
		protocol.EnvironmentProposal{
			ObservedFailure:     protocol.ObservedFailure{Phase: "p", ExitCode: -1, StderrHint: "h"},
			SuggestedAdjustment: protocol.SuggestedAdjustment{Type: protocol.AdjustEscalateToHuman, Details: json.RawMessage(`{}`)},
			Confidence:          0.5, Evidence: []string{"a", "b"}, Scope: protocol.ScopeGlobalCandidate,
		},
	} {
		e, err := protocol.New(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Open()
		if err != nil {
			t.Errorf("Open(%s): %v", e.Payload, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Open(New(%s)) differs (-want +got):\n%s", e.Payload, diff)
		}
	}
}

// Grease: what this version does not know passes through readers unchanged, and is never opened.
func TestUnknownIsKept(t *testing.T) {
	for _, line := range []string{
		`{"event_type":"FUTURE","payload":{"a":1.0e+5}}`,
		`{"protocol_version":"v2","event_type":"INFO","payload":{"message":"m"}}`,
		`{"x":[1,{"y":"\/"}],"event_type":"INFO","payload":{"message":"m","z":null},"grease":-0}`,
	} {
		e, _, ok := protocol.Decode([]byte(line))
		if !ok || string(e.Raw) != line {
			t.Errorf("Decode(%s) = %s, %v", line, e.Raw, ok)
		}
		_, err := e.Open()
		if known := e.ProtocolVersion != "v2" && e.Type == protocol.TypeInfo; (err == nil) != known {
			t.Errorf("Open(%s): %v", line, err)
		}
	}
}

// A member that breaks two rules of the envelope at once is reported once.
func TestEnvelopeRules(t *testing.T) {
	for member, want := range map[string]string{
		`"protocol_version":"v1"`:      "",
		`"protocol_version":null`:      "",
		`"protocol_version":1`:         "/protocol_version",
		`"protocol_version":"v2"`:      "/protocol_version",
		`"protocol_version":""`:        "/protocol_version",
		`"sprite_id":""`:               "",
		`"sprite_id":null`:             "",
		`"sprite_id":5`:                "/sprite_id",
		`"work_item_id":[]`:            "/work_item_id",
		`"event_id":{}`:                "/event_id",
		`"call_id":true`:               "/call_id",
		`"timestamp":null`:             "",
		`"timestamp":5`:                "/timestamp",
		`"timestamp":""`:               "/timestamp",
		`"timestamp":"now"`:            "/timestamp",
		`"timestamp":"` + stamp + `"`:  "",
		`"event_type":"twice is once"`: "/event_type",
	} {
		line := `{"event_type":"INFO","payload":{"message":"m"},` + member + `}`
		_, problems, ok := protocol.Decode([]byte(line))
		var got string
		if len(problems) > 0 {
			got = problems[0].Pointer
		}
		if !ok || got != want || len(problems) > 1 {
			t.Errorf("Decode(%s): problems %v, ok %v, want pointer %q", line, problems, ok, want)
		}
	}
}

func TestDecodeBoundsProblems(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"event_type":"WAITING","payload":{"reason":"r","checkpoint_id":"v","expected_inputs":{"0":1`)
	for i := 1; i < 50000; i++ {
		fmt.Fprintf(&b, `,"%d":1`, i)
	}
	b.WriteString(`}}}`)
	_, problems, ok := protocol.Decode(b.Bytes())
	if !ok || len(problems) > 40 {
		t.Errorf("ok %v with %d problems", ok, len(problems))
	}
}

func TestDecodeRefusesWhatIsNoEvent(t *testing.T) {
	for _, line := range []string{
		``, ` `, `null`, `5`, `"event_type"`, `[{"event_type":"INFO"}]`, `{}`, `{"event_type":null}`, `{"kind":"x"}`,
		`{"event_type":"INFO"`, `{"event_type":"INFO",}`, `{"event_type":"INFO"}}`, `{'event_type':'INFO'}`, `{"event_type":}`,
		`{"event_type":"INFO" "payload":{}}`, `{"event_type":"a` + "\n" + `b"}`, `{"event_type":"\x"}`, `{"event_type":"\u12"}`,
		`{"event_type":"INFO","payload":01}`, `{"event_type":"INFO","payload":1.}`, `{"event_type":"INFO","payload":+1}`,
		`{"event_type":"INFO","payload":NaN}`, `{"event_type":"INFO","payload":tru}`, `{"event_type":"INFO","payload":-}`,
		`{"event_type":"INFO","payload":1e}`, `{event_type:"INFO"}`, `{"event_type":"INFO"}` + "\x00", `{"Event_Type":"INFO"}`,
		strings.Repeat(`{"event_type":`, 5000) + `1` + strings.Repeat(`}`, 5000),
	} {
		if e, _, ok := protocol.Decode([]byte(line)); ok {
			t.Errorf("Decode(%.80s) = %.80s, want a refusal", line, e.Raw)
		}
	}
}

func TestTimes(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-02T03:04:05Z":               "2026-01-02T03:04:05.000000000Z",
		"2026-01-02t03:04:05.1z":             "2026-01-02T03:04:05.100000000Z",
		"2026-01-02 03:04:05+01:30":          "2026-01-02T01:34:05.000000000Z",
		"2026-01-02T03:04:05.123456789987Z":  "2026-01-02T03:04:05.123456789Z",
		"2026-01-01T00:00:00-00:00":          "2026-01-01T00:00:00.000000000Z",
		"2016-12-31T23:59:60Z":               "2017-01-01T00:00:00.000000000Z",
		"2026-01-02T03:04:05.000000006Z":     stamp,
		"2026-01-02T03:04:05.000000006+24:0": "",
		"2026-01-02T03:04:05+24:00":          "",
		"2026-01-02T03:04:05,5Z":             "",
		"2026-01-02T3:04:05Z":                "",
		"2026-02-30T00:00:00Z":               "",
		"2026-01-02T24:00:00Z":               "",
		"2026-01-02T03:04:05":                "",
		"2026-01-02":                         "",
		"yesterday":                          "",
		"":                                   "",
	} {
		got, err := protocol.ParseTime(in)
		if want == "" {
			if err == nil {
				t.Errorf("ParseTime(%q) = %v, want an error", in, got)
			}
			continue
		}
		if err != nil || protocol.FormatTime(got) != want || got.Location() != time.UTC {
			t.Errorf("ParseTime(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
}
