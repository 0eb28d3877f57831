package setup

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/spritekit/redact"
)

// A log line holds no secret that the leader knows by then, in whichever pieces it is written.
func TestLogWriter(t *testing.T) {
	t.Parallel()
	const canary = "canary-52b9e07c"
	secrets := func() *redact.Secrets { return redact.New(canary) }
	for cut := range canary {
		var out strings.Builder
		env := new(Env)
		w := env.LogWriter(&out)
		log := zerolog.New(w)
		log.Info().Msg("before")
		env.LogSecrets.Store(&secrets)
		log.Warn().Str("error", "exit 1: "+canary).Msg("a skill failed with " + canary)
		for _, piece := range []string{"panic: " + canary[:cut], canary[cut:] + "\n"} {
			if _, err := w.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		log.Info().Msg("after")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "canary") || strings.Count(text, redact.Mark) != 3 || strings.Count(text, "\n") != 4 || !strings.Contains(text, `"before"`) || !strings.Contains(text, `"after"`) {
			t.Errorf("cut at %d: %s", cut, text)
		}
	}
}
