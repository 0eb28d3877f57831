package skill_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// heard is a stdout that tells when it holds a word, and counts writes.
type heard struct {
	mu     sync.Mutex
	all    bytes.Buffer
	writes int
	word   string
	there  chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := strings.Contains(h.all.String(), h.word)
	h.all.Write(b)
	h.writes++
	if h.there != nil && !before && strings.Contains(h.all.String(), h.word) {
		close(h.there)
	}
	return len(b), nil
}

// atDesk makes one call that only reads at a desk and returns its events as the outbox has them.
func atDesk(t *testing.T, out *heard, run skill.Func) []protocol.Event {
	t.Helper()
	dir := t.TempDir()
	desk := skill.NewDesk(dir, "")
	env := skill.ParseEnv([]string{"LATTICE_WORKSPACE=" + dir, "LATTICE_SOCKET=", "LATTICE_CALL_ID=c"})
	m := manifests.Skill{Name: "a.b", SideEffect: manifests.ClassRead, Permissions: []string{}}
	var stderr bytes.Buffer
	exit := desk.Serve(t.Context(), skill.Skill{Name: "a.b", Run: run}, m, env, skill.IO{Stdin: strings.NewReader("{}"), Stdout: out, Stderr: &stderr})
	if err := desk.Close(); exit != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", exit, err, &stderr)
	}
	data, err := os.ReadFile(filepath.Join(dir, protocol.OutboxFile))
	if err != nil {
		t.Fatal(err)
	}
	var events []protocol.Event
	for line := range bytes.Lines(data) {
		e, problems, ok := protocol.Decode(line)
		if !ok || len(problems) > 0 {
			t.Fatalf("the outbox holds %s: %v", line, problems)
		}
		events = append(events, e)
	}
	// What was said is what is recorded, but for the record of the result.
	said := ""
	for _, e := range events[:len(events)-1] {
		said += protocol.Prefix + string(e.Raw) + "\n"
	}
	if got := out.all.String(); !strings.HasPrefix(got, said+`{"ok":true`) {
		t.Errorf("stdout is\n%s\nwant\n%s and the result", got, said)
	}
	return events
}

// That a small call begins is said together with its end, and still at its own time.
func TestBeginningIsHeldBack(t *testing.T) {
	var during time.Time
	out := &heard{}
	events := atDesk(t, out, func(context.Context, *skill.Call) (skill.Result, error) {
		during = time.Now()
		return skill.Result{}, nil
	})
	if len(events) != 3 || events[0].Type != protocol.TypePhaseStarted || events[1].Type != protocol.TypePhaseFinished {
		t.Fatalf("events = %+v", events)
	}
	began, err1 := protocol.ParseTime(events[0].Timestamp)
	ended, err2 := protocol.ParseTime(events[1].Timestamp)
	if err1 != nil || err2 != nil || began.After(during) || ended.Before(during) {
		t.Errorf("it began at %s, worked at %s, ended at %s (%v, %v)", began, during, ended, err1, err2)
	}
	if out.writes > 2 { // a slow machine may have said the beginning before
		t.Errorf("%d writes, want one", out.writes)
	}
}

// A call that takes longer is heard of while it works, and whatever it says comes after its beginning.
func TestBeginningIsHeardDuringLongCalls(t *testing.T) {
	out := &heard{word: "PHASE_STARTED", there: make(chan struct{})}
	events := atDesk(t, out, func(ctx context.Context, _ *skill.Call) (skill.Result, error) {
		select {
		case <-out.there:
			return skill.Result{}, nil
		case <-ctx.Done():
			return skill.Result{}, ctx.Err()
		}
	})
	if len(events) != 3 {
		t.Errorf("events = %+v", events)
	}
	out = &heard{}
	events = atDesk(t, out, func(_ context.Context, c *skill.Call) (skill.Result, error) {
		return skill.Result{}, c.Emit(protocol.Info{Message: "m"})
	})
	if len(events) != 4 || events[0].Type != protocol.TypePhaseStarted || events[1].Type != protocol.TypeInfo {
		t.Errorf("events = %+v", events)
	}
	if !strings.Contains(out.all.String(), `"events":3`) {
		t.Errorf("the result counts other events than three: %s", &out.all)
	}
}
