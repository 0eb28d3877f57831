package host_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
)

// npmClient is the official client that must work unmodified.
const npmClient = "@fly/sprites@0.1.0"

// TestNPMClient runs the official client for Node against the embedded host, by each script in testdata/npm, and then finds
// out whether there is anything in the client that none of them has called. It needs node, and the package in
// $LATTICE_NPM_CACHE or npm to install it there; without these it is skipped.
func TestNPMClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the official client is not tried")
	}
	module := npmModule(t)
	server := httptest.NewServer(newHost(t, "secret").Handler())
	defer server.Close()
	limited := httptest.NewServer(limitedHost(t, "secret", core.Limits{Creations: 1, Window: time.Hour}).Handler())
	defer limited.Close()
	driven := filepath.Join(t.TempDir(), "driven")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	scripts, err := filepath.Glob("testdata/npm/*.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v, %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			cmd := exec.CommandContext(ctx, node, "--experimental-websocket", script, module, server.URL, "secret", limited.URL)
			cmd.Env = append(os.Environ(), "DRIVEN="+driven)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "ok\n") {
				t.Errorf("the official client failed: %v\n%s", err, out)
			}
		})
	}
	if t.Failed() {
		return
	}
	if out, err := exec.CommandContext(ctx, node, "testdata/npm/lib/undriven.mjs", module, driven).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("no script calls these parts of the official client: %v\n%s", err, out)
	}
}

func npmModule(t *testing.T) string {
	dir := os.Getenv("LATTICE_NPM_CACHE")
	if dir == "" {
		dir = filepath.Join("..", "..", ".work", "npm")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(dir, "node_modules", "@fly", "sprites", "dist", "index.js")
	if _, err := os.Stat(module); err == nil {
		return module
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skipf("%s is not in %s and npm is not installed: the official client is not tried", npmClient, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(npm, "install", "--prefix", dir, "--no-audit", "--no-fund", npmClient).CombinedOutput(); err != nil {
		t.Skipf("npm cannot install %s, the official client is not tried: %v\n%s", npmClient, err, out)
	}
	return module
}
