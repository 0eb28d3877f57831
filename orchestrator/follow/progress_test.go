package follow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// A picture goes up to the first line of the one before and stays on the screen, however long the run is. The last one has
// all lines.
func TestPictureFitsTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{console: &cli.Console{Err: &out, Terminal: true, Getenv: func(string) string { return "" }}, view: api.RunView{RunID: "run_1"}, steps: timeline.New()}
	const height, steps = 10, 30
	drawn := 0
	for i := range steps {
		body, err := json.Marshal(lattice.CallFinished{OK: true, Data: json.RawMessage(`{"status":"passed"}`)})
		if err != nil {
			t.Fatal(err)
		}
		p.steps.Add(lattice.Entry{Kind: lattice.EntryFact, Type: lattice.RunStarted{}.FactType(), Body: json.RawMessage(`{}`), At: time.Unix(int64(i), 0), Started: []string{fmt.Sprintf("node%d", i)}})
		p.steps.Add(lattice.Entry{Kind: lattice.EntryFact, Type: lattice.CallFinished{}.FactType(), Body: body, At: time.Unix(int64(i), 0)})
		out.Reset()
		p.drawPicture(80, height)
		text := out.String()
		if drawn > 0 && !strings.HasPrefix(text, fmt.Sprintf("\x1b[%dA", drawn)) {
			t.Fatalf("the picture of step %d does not begin where the one before did, %d lines above: %q", i, drawn, text)
		}
		if drawn = strings.Count(text, "\n"); drawn >= height {
			t.Fatalf("the picture of step %d has %d lines on a screen of %d", i, drawn, height)
		}
		if !strings.Contains(text, fmt.Sprintf("node%d ", i)) {
			t.Errorf("the picture of step %d does not show it: %q", i, text)
		}
	}
	if !strings.Contains(out.String(), fmt.Sprintf("… %d lines before", steps-(height-3))) {
		t.Errorf("the last picture does not count the lines before: %q", out.String())
	}
	out.Reset()
	p.drawPicture(80, 0)
	if got := strings.Count(out.String(), " node"); got != steps {
		t.Errorf("%d steps are left standing, want %d", got, steps)
	}
}
