package host_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestOwnSkills: a host that is given no skills leaves each sprite a folder of its own, as remote services do. It can be
// written from outside and inside, and belongs to checkpoints.
func TestOwnSkills(t *testing.T) {
	server := httptest.NewServer(newHost(t, "").Handler())
	defer server.Close()
	c := sprites.New(server.URL, "", server.Client())
	if _, err := c.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile(t.Context(), "s", "/skills/hello", strings.NewReader("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) string {
		var out strings.Builder
		if code, err := c.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out}); code != 0 || err != nil {
			t.Fatalf("sh -c %q = %d, %v", script, code, err)
		}
		return out.String()
	}
	if got := sh("/skills/hello && ln -s hello /skills/again && ls /skills"); got != "hello\nagain\nhello\n" {
		t.Errorf("= %q", got)
	}
	cp, err := c.Checkpoint(t.Context(), "s", "")
	if err != nil {
		t.Fatal(err)
	}
	sh("rm /skills/*")
	if err := c.Restore(t.Context(), "s", cp.ID); err != nil {
		t.Fatal(err)
	}
	if got := sh("/skills/again"); got != "hello\n" {
		t.Errorf("after restore = %q", got)
	}
}
