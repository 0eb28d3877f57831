package contract_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/contract"
)

// Of a program that keeps nothing of the contract, each finding says what was tried, what came, and what was wanted.
func TestFindingsSayWhatWasTried(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	target := contract.Target{Skill: "a.b", Exe: sh, Args: []string{"-c", "cat >/dev/null; echo hello"}, Input: `{"x":"a"}`}
	found := map[string]string{}
	contract.Test(t.TempDir(), target, func(r contract.Report) { found[r.Check] = strings.Join(r.Findings, "\n") })
	for check, want := range map[string]string{
		"result is the last line and fits the exit code": `stdout "hello\n" does not end in a result; stderr is ""`,
		"outbox holds the events of stdout":              "there is no .lattice/outbox.jsonl, to which each event is appended before it is printed",
		"same call id with other input is refused":       `the id of an earlier call with stdin "{\"x\":\"a-other\"}": exit 0, stdout "hello\n"; want exit 2`,
		"unknown key is refused with its pointer":        `stdin "{\"no_such_input\":1,\"x\":\"a\"}": exit 0, stdout "hello\n"; want exit 2, and a result with the error code bad_input`,
		"malformed stdin is refused":                     `stdin "[]": exit 0, stdout "hello\n"; want exit 2, and a result with the error code bad_input`,
		"empty stdin is an empty object":                 "want a result in both cases, and the same",
	} {
		if !strings.Contains(found[check], want) {
			t.Errorf("%s: %q, want %q", check, found[check], want)
		}
	}
}
