package leader

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/spritekit/redact"
)

// What people type is kept without the secrets of the run, in each form in which a secret may be pasted.
func TestTypedSecrets(t *testing.T) {
	const canary = "canary+7f/31aa90ce+d2="
	known := redact.New(canary)
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte("x:" + canary)), url.QueryEscape(canary), fmt.Sprintf("%x", canary), canary[:9] + "\n" + canary[9:]} {
		raw, err := json.Marshal(map[string]any{"list": []string{"see " + form}, form: true, "n": 7})
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]string{"note": "the key is " + form, "plain": "yes"}
		d := redactDecision(known, api.DecideRequest{Comments: "because " + form + " holds", Inputs: in, Typed: raw})
		for what, text := range map[string]string{"comments": d.Comments, "inputs": d.Inputs["note"], "typed": string(d.Typed)} {
			if strings.Contains(text, form) || strings.Contains(text, form[4:]) || !strings.Contains(text, redact.Mark) {
				t.Errorf("%s of %q: %q", what, form, text)
			}
		}
		if !json.Valid(d.Typed) || d.Inputs["plain"] != "yes" || !strings.HasPrefix(d.Comments, "because ") || !strings.HasSuffix(d.Comments, " holds") {
			t.Errorf("%q: more than the secret is gone: %+v", form, d)
		}
		if !strings.Contains(in["note"], form) {
			t.Error("the request itself was changed")
		}
	}
	if d := redactDecision(nil, api.DecideRequest{Comments: canary}); d.Comments != canary {
		t.Errorf("without secrets the comment is %q", d.Comments)
	}
}

// The log of a leader is filtered by all secrets that it has known, also of runs that have ended.
func TestEverKnown(t *testing.T) {
	var k everKnown
	if k.secrets().Any() {
		t.Error("a new leader knows secrets")
	}
	k.add("canary-first", "canary-second")
	k.add("canary-third")
	k.add("canary-first")
	if got := k.secrets().Text("canary-first canary-second canary-third rest"); got != strings.Repeat(redact.Mark+" ", 3)+"rest" {
		t.Errorf("Text = %q", got)
	}
}
