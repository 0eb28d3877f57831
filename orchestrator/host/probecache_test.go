package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/core"
)

// TestProbeIsKept holds that a host of the same program on the same running system starts no sandbox to find out what it
// can do, and that one of another program or another start of the system does.
func TestProbeIsKept(t *testing.T) {
	dir := t.TempDir()
	ask := func(change func(map[string]any)) string {
		t.Helper()
		file := filepath.Join(dir, "probe.json")
		if change != nil {
			var kept map[string]any
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Skipf("a probe that finds something in the way is not kept: %v", err)
			}
			if err := json.Unmarshal(raw, &kept); err != nil {
				t.Fatal(err)
			}
			change(kept)
			if raw, err = json.Marshal(kept); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var found string
		t.Run("host", func(t *testing.T) {
			found = openHostWith(t, core.Config{Dir: dir}).Isolation()
		})
		return found
	}
	true1 := ask(nil)
	const told = "as it was kept"
	if got := ask(func(kept map[string]any) { kept["isolation"] = told }); got != told {
		t.Errorf("the second host probed: %q", got)
	}
	if got := ask(func(kept map[string]any) { kept["key"] = "of another program" }); got != true1 {
		t.Errorf("a host took the result of another program: %q, want %q", got, true1)
	}
	if got := ask(func(kept map[string]any) { kept["limits"] = 1 }); got != true1 {
		t.Errorf("a host took a damaged result: %q, want %q", got, true1)
	}
}
