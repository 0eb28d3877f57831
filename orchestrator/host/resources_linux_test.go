package host

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestMemoryPolicyOfARunningSprite changes the limit while a process runs: a program that fitted fits no more, and then fits
// again; a limit below what is in use is refused until the next start, and nothing is killed for it.
func TestMemoryPolicyOfARunningSprite(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	w.sh("s", "true")
	limit := func() sprites.Limit {
		t.Helper()
		got, err := w.client.Get(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got.Limits {
			if l.Limit == string(spec.DefenceMemory) {
				return l
			}
		}
		t.Fatalf("no limit of memory in %+v", got.Limits)
		return sprites.Limit{}
	}
	before := limit()
	if before.By != "cgroup" {
		t.Skipf("nothing limits memory here: %s", before.Why)
	}
	post := func(mb int) string {
		t.Helper()
		res, err := http.Post(w.server+"/v1/sprites/s/policy/resources", "application/json", strings.NewReader(fmt.Sprintf(`{"memory":{"limit_mb":%d}}`, mb)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	big := `perl -e '$x = "x" x 150_000_000; print length $x'`
	if out, code := w.sh("s", big); code != 0 {
		t.Fatalf("without a policy: %d, %s", code, out)
	}
	if got := post(100); !strings.Contains(got, `"effective":"now"`) {
		t.Errorf("POST = %s", got)
	}
	if out, code := w.sh("s", big); code == 0 {
		t.Errorf("with 100 MiB: %s", out)
	}
	if l := limit(); l.Max != 100<<20 || l.Why != "" {
		t.Errorf("limits tell %+v", l)
	}
	if got := post(400); !strings.Contains(got, `"effective":"now"`) {
		t.Errorf("POST = %s", got)
	}
	if out, code := w.sh("s", big); code != 0 {
		t.Errorf("with 400 MiB: %d, %s", code, out)
	}
	w.detached("s", 0, `exec perl -e '$x = "x" x 90_000_000; open my $f, ">", "/tmp/full"; close $f; sleep 1000'`)
	if out, code := w.sh("s", "for i in $(seq 1200); do test -e /tmp/full && exit; sleep 0.05; done; exit 1"); code != 0 {
		t.Fatalf("the program that uses memory: %s", out)
	}
	if got := post(64); !strings.Contains(got, `"effective":"next_start"`) || !strings.Contains(got, "use") {
		t.Errorf("POST below what is in use = %s", got)
	}
	if out, code := w.sh("s", "pgrep -x perl || ps ax"); code != 0 {
		t.Errorf("the process that used the memory: %s", out)
	}
	if l := limit(); l.Max != 400<<20 || l.Why == "" {
		t.Errorf("limits tell %+v", l)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.server+"/v1/sprites/s/policy/resources", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatal(res, err)
	}
	res.Body.Close()
	if l := limit(); l.Max != before.Max || l.Why != "" {
		t.Errorf("without the policy again: %+v, want %+v", l, before)
	}
}
