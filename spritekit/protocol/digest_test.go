package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : [ 1.0 , 1e+2 , -0 ] , "a" : null } `: `{"a":null,"b":[1.0,1e+2,-0]}`,
		`{"a!":1,"a":2,"\u0061b":3}`:                   `{"a":2,"a!":1,"ab":3}`,
		`{"é":1,"z":2,"😀":3}`:                          `{"z":2,"é":1,"😀":3}`,
		`{"a":1,"\u0061":2}`:                           `{"a":2}`,
		`"\u003c\/\u20ac\ud83d\ude00\u0041"`:           `"</€😀A"`,
		`"\u000A\u0001\u001F\u0022\\\b"`:               `"\n\u0001\u001f\"\\\b"`,
		`"\uD800x\udc00"`:                              `"\ud800x\udc00"`,
		`"<&>` + "\u2028" + `"`:                        `"<&>` + "\u2028" + `"`,
		`[]`:                                           `[]`,
		`{}`:                                           `{}`,
		`123456789012345678901234567890`:               `123456789012345678901234567890`,
		"\"\xff\"":                                     "\"\uFFFD\"",
	} {
		got, err := protocol.Canonical(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
		again, err := protocol.Canonical(got)
		if err != nil || string(again) != want {
			t.Errorf("Canonical(%s) = %s, %v, want itself", got, again, err)
		}
	}
	for _, in := range []string{``, `{`, `{"a":1}x`, `nul`} {
		if got, err := protocol.Canonical(json.RawMessage(in)); err == nil {
			t.Errorf("Canonical(%q) = %s, want an error", in, got)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := protocol.EnvironmentProposal{
		ObservedFailure:     protocol.ObservedFailure{Phase: "bootstrap", ExitCode: 127, StderrHint: "a"},
		SuggestedAdjustment: protocol.SuggestedAdjustment{Type: "runtime_install", Details: json.RawMessage(`{"runtime":"node","version":"20"}`)},
		Confidence:          0.5, Evidence: []string{"x"}, Scope: "repo_specific",
	}
	// sha256 of {"adjustment_details":{"runtime":"node","version":"20"},"adjustment_type":"runtime_install","exit_code":127,"phase":"bootstrap"}
	const want = "1f22f46b3e7c105bcb184434babfc36480568b31a064b322486ac22ed8237a92"
	if got := base.Fingerprint(); got != want {
		t.Errorf("Fingerprint = %s, want %s", got, want)
	}
	same := base
	same.ObservedFailure.StderrHint, same.Confidence, same.Evidence, same.Scope = "b", 1, nil, "global_candidate"
	same.SuggestedAdjustment.Details = json.RawMessage(`{ "version":"2\u0030", "runtime":"node" }`)
	if got := same.Fingerprint(); got != want {
		t.Errorf("hint, confidence, evidence, scope and spelling change the fingerprint to %s", got)
	}
	for name, change := range map[string]func(*protocol.EnvironmentProposal){
		"phase":   func(p *protocol.EnvironmentProposal) { p.ObservedFailure.Phase = "test" },
		"code":    func(p *protocol.EnvironmentProposal) { p.ObservedFailure.ExitCode = 1 },
		"type":    func(p *protocol.EnvironmentProposal) { p.SuggestedAdjustment.Type = "add_system_package" },
		"details": func(p *protocol.EnvironmentProposal) { p.SuggestedAdjustment.Details = json.RawMessage(`{}`) },
	} {
		other := base
		change(&other)
		if other.Fingerprint() == want {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

func TestPayloadDigest(t *testing.T) {
	digest := func(text string) string {
		t.Helper()
		var r protocol.Resume
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		d, err := r.PayloadDigest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(`{"work_item_id":"w","checkpoint_id":"c","inputs":{"a":1,"b":"<"},"context":{"run_id":"r"}}`)
	// sha256 of {"checkpoint_id":"c","context":{"run_id":"r"},"inputs":{"a":1,"b":"<"},"work_item_id":"w"}
	if golden := "df3c007e6f8c56a06ca798f8d7781d8923d4a88e0ded549efafc80da1b55e2a4"; base != golden {
		t.Errorf("PayloadDigest = %s, want %s", base, golden)
	}
	if got := digest(`{"context":{"run_id":"r","later":1},"inputs":{"b":"\u003c","a":1},"checkpoint_id":"c","work_item_id":"w"}`); got != base {
		t.Errorf("order and spelling change the digest to %s", got)
	}
	if digest(`{}`) != digest(`{"inputs":{}}`) || digest(`{}`) != digest(`{"inputs":null}`) {
		t.Error("absent inputs differ from empty ones")
	}
	for _, other := range []string{
		`{"work_item_id":"x","checkpoint_id":"c","inputs":{"a":1,"b":"<"},"context":{"run_id":"r"}}`,
		`{"work_item_id":"w","checkpoint_id":"d","inputs":{"a":1,"b":"<"},"context":{"run_id":"r"}}`,
		`{"work_item_id":"w","checkpoint_id":"c","inputs":{"a":2,"b":"<"},"context":{"run_id":"r"}}`,
		`{"work_item_id":"w","checkpoint_id":"c","inputs":{"a":1,"b":"<"},"context":{"run_id":"s"}}`,
	} {
		if digest(other) == base {
			t.Errorf("%s has the same digest", other)
		}
	}
	if _, err := (protocol.Resume{Inputs: json.RawMessage(`{`)}).PayloadDigest(); err == nil {
		t.Error("torn inputs have a digest")
	}
}
