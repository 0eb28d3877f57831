package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// What is written member by member is what encoding/json would write.
func TestEncodeResult(t *testing.T) {
	fault := &protocol.Fault{Code: "x", Message: "a <b> \"c\" \u2028 \xff", Hint: "h", Retryable: true, Details: json.RawMessage(`{"a":[1]}`)}
	for name, r := range map[string]protocol.Result{
		"empty":    {},
		"data":     {OK: true, Skill: "fs.read", Data: json.RawMessage(`{"content":"<&>","n":1e5}`), Events: 2, CallID: "call_1"},
		"fault":    {Skill: "fs.read", Error: fault, CallID: "c"},
		"waiting":  {OK: true, Skill: "a.b", Waiting: &protocol.Waiting{Reason: "r", CheckpointID: "v1", ExpectedInputs: map[string]string{"b": "string", "a": "boolean"}}},
		"warnings": {OK: true, Skill: "a.b", Data: json.RawMessage(`{}`), Warnings: []protocol.Warning{{Code: "c", Message: "m"}, {Code: "d", Message: "n"}}, Events: 12},
	} {
		got, err := encodeResult(r)
		want, werr := encodeJSON(r)
		if err != nil || werr != nil || string(got) != string(want) {
			t.Errorf("%s: encodeResult = %s, %v; want %s, %v", name, got, err, want, werr)
		}
	}
	if _, err := encodeResult(protocol.Result{Data: json.RawMessage(`{`)}); err == nil {
		t.Error("a result that is not JSON was encoded")
	}
}

// A message that is too long is cut at a whole character, for people as for machines.
func TestLongMessageIsCutCleanly(t *testing.T) {
	for _, before := range []string{"", "x"} {
		var stdout, stderr bytes.Buffer
		r := &runner{skill: Skill{Name: "a.b"}, streams: IO{Stdout: &stdout, Stderr: &stderr}, out: &output{stdout: io.Discard}}
		r.refuseCall(errors.New(before + strings.Repeat("ä", maxMessage)))
		if !utf8.Valid(stderr.Bytes()) || bytes.ContainsRune(stdout.Bytes(), utf8.RuneError) || stderr.Len() > maxMessage+20 {
			t.Errorf("cut to %q", stderr.String()[maxMessage-10:])
		}
	}
}

// A result that is too long and holds nothing that could be moved to a file is refused.
func TestFitRefuses(t *testing.T) {
	line := []byte(strings.Repeat("x", 100))
	_, err := Fit(nil, &protocol.Result{Skill: "fs.read"}, line, 99)
	if e := Fault(err); e.Code != "result_too_large" || e.Exit != protocol.ExitLimit {
		t.Errorf("Fit = %v, want result_too_large", err)
	}
	if got, err := Fit(nil, &protocol.Result{}, line, 100); err != nil || !bytes.Equal(got, line) {
		t.Errorf("Fit of a line that fits = %s, %v", got, err)
	}
}
