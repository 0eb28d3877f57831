package local_test

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestNPMFiles runs every method of the official client's filesystem class against the embedded host. See TestNPMClient.
func TestNPMFiles(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the official client is not tried")
	}
	module := npmModule(t)
	server := httptest.NewServer(newHost(t, "secret").Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, "--experimental-websocket", "testdata/npm/files.mjs", module, server.URL, "secret").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "ok\n") {
		t.Errorf("the official client failed: %v\n%s", err, out)
	}
}
