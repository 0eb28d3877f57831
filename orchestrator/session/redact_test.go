package session_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/spritekit/redact"
)

// A skill of others says a secret that it was given in its stream, in the outbox, on stderr in pieces, in its result and in
// the place of a number.
func TestKnownSecretsStayOut(t *testing.T) {
	const canary, number = "npm_c4n4ry/0123+456789", "9182736455"
	w := newWorld(t)
	leased := 0
	w.session.Close()
	w.session = session.New(w.client, session.Options{
		Log:    zerolog.Nop(),
		Output: func(_, _ string) io.Writer { return redact.New(canary, number).Writer(&w.output) },
		Issued: func(string) map[string]bool { return w.issued },
		Known:  func(string) *redact.Secrets { return redact.New(canary, number) },
		Leased: func(_ context.Context, c lattice.Call) ([]string, error) {
			leased++
			return []string{"NPM_TOKEN=" + canary}, nil
		},
	})
	const program = `
s=$NPM_TOKEN
[ ${#s} = 22 ] || exit 9
say INFO a "{\"message\":\"streamed $s\",\"metadata\":{\"n\":9182736455}}"
note INFO b "{\"message\":\"noted $s\"}"
printf 'plain npm_c4n4'; sleep 0.05; echo 'ry/0123+456789 end'
printf 'stderr npm_c4n4' >&2; sleep 0.05; echo between; sleep 0.05; printf 'ry/0123+456789' >&2
printf %s "$s" | base64
`
	out, said := w.must(shell(manifests.ClassIdempotent, program+`echo "{\"ok\":true,\"skill\":\"shell\",\"data\":{\"s\":\"$s\",\"n\":9182736455},\"events\":1}"`))
	if got := string(out.Result.Data); got != `{"n":"[redacted]","s":"[redacted]"}` && got != `{"s":"[redacted]","n":"[redacted]"}` {
		t.Errorf("result %s", got)
	}
	events, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"events": string(events), "output": w.output.String()} {
		for _, form := range []string{canary, number, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary))[:20]} {
			if strings.Contains(text, form) {
				t.Errorf("%s hold %q: %s", name, form, text)
			}
		}
	}
	for _, want := range []string{"streamed [redacted]", "noted [redacted]"} {
		if !strings.Contains(string(events), want) {
			t.Errorf("no event %q: %s", want, events)
		}
	}
	for _, want := range []string{"plain [redacted] end\n", "stderr [redacted]"} {
		if !strings.Contains(w.output.String(), want) {
			t.Errorf("no output %q: %s", want, w.output.String())
		}
	}
	if leased != 1 {
		t.Errorf("leases were asked for %d times", leased)
	}
}
