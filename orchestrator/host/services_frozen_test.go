package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// openOf counts the descriptors of this process that lead to something whose name contains text.
func openOf(t *testing.T, text string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here: descriptors are not counted")
	}
	for _, e := range all {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, text) {
			n++
		}
	}
	return n
}

// A sprite that makes and deletes services, or ends their processes, without end costs the host a bounded number of files and
// descriptors.
func TestServicesWithoutEnd(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	put := func(s sprites.Service) error { // returns when its process has ended
		err := w.client.Services().Put(t.Context(), "s", s, sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
			if e.Type == "exit" {
				return over
			}
			return nil
		}})
		if errors.Is(err, over) {
			return nil
		}
		return fmt.Errorf("it did not end: %w", err)
	}
	logs := filepath.Dir(w.host.core.LogPath(rec.ID, "x"))
	for _, c := range []struct {
		name  string
		do    func(i int) error
		count func() int
		most  int
	}{
		{"logs of deleted services", func(i int) error {
			name := fmt.Sprintf("s%d", i)
			if err := put(sprites.Service{Name: name, Cmd: "echo", Args: []string{"said"}}); err != nil {
				return err
			}
			return w.client.Services().Delete(t.Context(), "s", name)
		}, func() int {
			files, err := os.ReadDir(logs)
			if err != nil {
				t.Fatal(err)
			}
			return len(files)
		}, 32},
		{"open logs of deleted services", func(int) error { return nil }, func() int { return openOf(t, logs) }, 0},
		{"pipes that children hold", func(i int) error {
			return put(sprites.Service{Name: "p", Cmd: "sh", Args: []string{"-c", "setsid sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done"}, Env: map[string]string{"N": fmt.Sprint(i)}})
		}, func() int { return openOf(t, "pipe:") }, openOf(t, "pipe:") + 64 + 4},
	} {
		for i := range 40 {
			if err := c.do(i); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if n := c.count(); n > c.most {
			t.Errorf("%s: %d, want at most %d", c.name, n, c.most)
		}
	}
}
