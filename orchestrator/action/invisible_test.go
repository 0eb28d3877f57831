package action

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Invisible characters in names, messages and added lines of a push are a warning, shown by their numbers and bound by the
// approval. Those in names and messages ask a person, whatever the policy allows.
func TestInvisibleInPush(t *testing.T) {
	const allow = "actions.PUSH_BRANCH.decision = 'allow'"
	for name, tt := range map[string]struct {
		prepare func(f *fixture)
		warning string // part of it, "" for none
		verdict lattice.Verdict
	}{
		"file name": {func(f *fixture) { f.propose("m", map[string]string{"a\u202ecod.exe": "x\n"}) }, "invisible characters (U+202E) in the name a<U+202E>cod.exe", lattice.Ask},
		"message":   {func(f *fixture) { f.propose("fix\U000e0061\u200b", nil) }, "invisible characters (U+E0061 U+200B) in a message of a commit", lattice.Ask},
		"title":     {func(f *fixture) { f.params.Title = "fix\u2066it" }, "invisible characters (U+2066) in the parameter title", lattice.Ask},
		"content":   {func(f *fixture) { f.propose("m", map[string]string{"a.c": "1\nif (x) \u202e// no\n"}) }, "invisible characters (U+202E) in a.c:2", lattice.Allow},
		"other texts": {func(f *fixture) {
			f.propose("m 👩\u200d👧", map[string]string{"نمی\u200cخواهم": "\ufeffx\n"})
		}, "", lattice.Allow},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy(allow)
			tt.prepare(f)
			a, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
			if err != nil || verdict != tt.verdict {
				t.Fatalf("Inspect = %s %q %v, want %s", verdict, why, err, tt.verdict)
			}
			var b Binding
			if err := json.Unmarshal(a.Binding, &b); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(b.Warnings, "\n"); (got == "") != (tt.warning == "") || !strings.Contains(got, tt.warning) {
				t.Errorf("warnings = %q, want %q", got, tt.warning)
			}
		})
	}
}

// So are those in the parameters of other actions; in the name of a branch they are refused.
func TestInvisibleInParameters(t *testing.T) {
	f := newFixture(t)
	for _, tt := range []struct{ action, parameters, binding, refusal string }{
		{protocol.ActionPostComment, `{"number":7,"body":"look\u200bhere"}`, `{"warnings":["invisible characters (U+200B) in the parameter body"]}`, ""},
		{protocol.ActionPostComment, `{"number":7,"body":"look here"}`, "", ""},
		{protocol.ActionLabelIssue, `{"number":7,"labels":["bug","b\u2060g"]}`, `{"warnings":["invisible characters (U+2060) in the parameter labels"]}`, ""},
		{protocol.ActionOpenPR, `{"title":"a\u202eb","body":"\ufeff","head":"fix"}`, `{"warnings":["invisible characters (U+FEFF U+202E) in the parameter body, the parameter title"]}`, ""},
		{protocol.ActionOpenPR, `{"title":"t","head":"fix\u200b"}`, "", `bad_parameters: the parameter head is "fix<U+200B>", which holds invisible characters`},
	} {
		a, c := f.action(), call
		a.Name, a.Parameters = tt.action, json.RawMessage(tt.parameters)
		c.Permissions = []string{"github:write", "git:read"}
		a, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a)
		if err != nil || (verdict == lattice.Deny) != (tt.refusal != "") || !strings.HasPrefix(why, tt.refusal) || string(a.Binding) != tt.binding {
			t.Errorf("%s %s: %s %q %v, binding %s, want %s", tt.action, tt.parameters, verdict, why, err, a.Binding, tt.binding)
		}
	}
	f.params.Branch = "fix\u200b"
	if _, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action()); err != nil || verdict != lattice.Deny || !strings.HasPrefix(why, "bad_branch: ") {
		t.Errorf("a push to such a branch: %s %q %v", verdict, why, err)
	}
}
