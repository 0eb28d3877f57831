package host

import (
	"context"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A service whose restart is due while the sprite's processes are frozen waits for the thaw. Meanwhile the sprite can be asked
// about, woken and deleted.
func TestRestartsOfFrozenServices(t *testing.T) {
	w, _ := lifeWorld(t, core.Limits{})
	w.sprite("s")
	service := sprites.Service{Name: "web", Cmd: "sh", Args: []string{"-c", "test -e go || exit 1; exec sleep 1000"}}
	if err := w.client.Services().Put(t.Context(), "s", service, sprites.ServiceCall{}); err != nil {
		t.Fatal(err)
	}
	status := func() (status string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		s, err := w.client.Services().Get(ctx, "s", "web")
		if err != nil {
			t.Fatalf("ask for the service: %v", err)
		}
		return s.State.Status
	}
	await := func(want string) {
		for status() != want {
			time.Sleep(10 * time.Millisecond)
		}
	}
	await("failed")
	w.settle("s")
	if got := w.asleep("s"); got != "warm" {
		t.Fatalf("the idle sprite is %s, want warm", got)
	}
	await("starting") // it is due within a second
	for _, c := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"list the sprites", func(ctx context.Context) error { _, err := w.client.List(ctx, ""); return err }},
		{"get the sprite", func(ctx context.Context) error { _, err := w.client.Get(ctx, "s"); return err }},
		{"list the services", func(ctx context.Context) error { _, err := w.client.Services().List(ctx, "s"); return err }},
		{"let it sleep", func(context.Context) error { w.asleep("s"); return nil }},
		{"wake it", func(ctx context.Context) error {
			_, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"touch", "go"}})
			return err
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := c.do(ctx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		cancel()
	}
	await("running")
	if err := w.client.Delete(t.Context(), "s"); err != nil {
		t.Errorf("delete it: %v", err)
	}
}
