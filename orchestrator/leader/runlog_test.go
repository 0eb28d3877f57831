package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

type lastSeq struct{}

func (lastSeq) Append(_ context.Context, _ string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	return after + lattice.Seq(len(entries)), nil
}

// TestTellingLog: lines about a run have its id and that of its trace; node, sprite, call and span where they are known; no body of
// an entry, and no secret.
func TestTellingLog(t *testing.T) {
	for _, tt := range []struct {
		level zerolog.Level
		want  []string
	}{
		{zerolog.InfoLevel, []string{"RunStarted", "CallSuspended"}},
		{zerolog.DebugLevel, []string{"RunStarted", "CallFinished", "INFO", "CallSuspended"}},
	} {
		var out bytes.Buffer
		to := redact.New("canary-7f31").Writer(&out)
		log := tellingLog{lastSeq{}, zerolog.New(to).Level(tt.level)}
		entries := []lattice.Entry{
			{Kind: lattice.EntryFact, Type: "RunStarted", Started: []string{"edit"}, Body: json.RawMessage(`{"said":"by a sprite"}`)},
			{Kind: lattice.EntryFact, Type: "CallFinished", Started: []string{"push", "note"}},
			{Kind: lattice.EntryEvent, Type: "INFO", Sprite: "box-canary-7f31", CallID: "call_a", Body: json.RawMessage(`{"said":"by a sprite"}`)},
			{Kind: lattice.EntryFact, Type: "CallSuspended"},
		}
		if seq, err := log.Append(t.Context(), "run_a", 0, entries); seq != 4 || err != nil {
			t.Fatal(seq, err)
		}
		if err := to.Flush(); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "canary-7f31") || strings.Contains(text, "by a sprite") {
			t.Errorf("the log holds a secret, or text of a sprite:\n%s", text)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			var said map[string]string
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			got = append(got, said["message"])
			if said["run_id"] != "run_a" || said["trace_id"] != tracecontext.TraceID("run_a") {
				t.Errorf("a line lacks the run or its trace: %s", line)
			}
			switch said["message"] {
			case "RunStarted":
				if said["node"] != "edit" {
					t.Errorf("a line lacks the node: %s", line)
				}
			case "INFO":
				if said["call_id"] != "call_a" || said["span_id"] != tracecontext.CallSpan("call_a") || !strings.HasPrefix(said["sprite"], "box-") {
					t.Errorf("a line lacks sprite, call or span: %s", line)
				}
			}
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("level %s: lines about %v, want %v", tt.level, got, tt.want)
		}
	}
}
