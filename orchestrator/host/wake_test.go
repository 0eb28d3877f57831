package host

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestEveryCallThatUsesASpriteWakesIt, from its sleep and from its deep one, and those that only look leave it asleep.
func TestEveryCallThatUsesASpriteWakesIt(t *testing.T) {
	w, pass := lifeWorld(t, core.Limits{})
	ctx, c := t.Context(), w.client
	status := func(want int, method, path, body string) func(string) error {
		return func(name string) error {
			if got := w.call(method, "/v1/sprites/"+name+path, body, nil); got != want {
				return errors.New(method + " " + path + ": " + http.StatusText(got))
			}
			return nil
		}
	}
	uses := map[string]func(name string) error{
		"exec": func(name string) error {
			code, err := c.Exec(ctx, name, sprites.Exec{Cmd: []string{"true"}})
			if code != 0 {
				return errors.Join(err, errors.New("exit code"))
			}
			return err
		},
		"exec over POST": func(name string) error {
			res := w.answer(http.MethodPost, "/v1/sprites/"+name+"/exec?cmd=true", "")
			defer res.Body.Close()
			if data, err := io.ReadAll(res.Body); err != nil || string(data) != "\x03\x00" {
				return errors.Join(err, errors.New("answered "+string(data)))
			}
			return nil
		},
		"write a file":  func(name string) error { return c.WriteFile(ctx, name, "/workspace/f", strings.NewReader("x"), 0o644) },
		"read a file":   func(name string) error { _, err := c.ReadFile(ctx, name, "/etc/hostname", 99); return err },
		"list files":    func(name string) error { _, err := c.Files().List(ctx, name, "/workspace"); return err },
		"change a mode": func(name string) error { return c.Files().Chmod(ctx, name, "/workspace/kept", 0o600, false) },
		"copy a file": func(name string) error {
			_, err := c.Files().Copy(ctx, name, "/workspace/kept", "/workspace/two", sprites.CopyOptions{})
			return err
		},
		"move a file":      func(name string) error { return c.Files().Rename(ctx, name, "/workspace/two", "/workspace/three") },
		"remove a file":    func(name string) error { return c.Files().Remove(ctx, name, "/workspace/f", false) },
		"check":            func(name string) error { _, err := c.Check(ctx, name); return err },
		"restart":          func(name string) error { return c.Restart(ctx, name) },
		"define a service": status(200, "PUT", "/services/web?duration=0s", `{"cmd":"sleep","args":["600"]}`),
		"start a service":  status(200, "POST", "/services/web/start?duration=0s", ""),
		"remove a service": status(204, "DELETE", "/services/web", ""),
		"keep awake":       func(name string) error { _, err := c.Tasks().KeepAwake(ctx, name, "t", time.Second); return err },
		"look at ports":    func(name string) error { _, err := c.Ports().List(ctx, name); return err },
		"reach a port": func(name string) error {
			conn, err := c.Dial(ctx, name, "localhost", 1)
			if err == nil {
				conn.Close()
				return errors.New("something listens")
			}
			if !strings.Contains(err.Error(), "nothing listens there") {
				return err
			}
			return nil
		},
	}
	order := []string{
		"exec", "exec over POST", "write a file", "read a file", "list files", "change a mode", "copy a file", "move a file", "remove a file", "check", "restart",
		"define a service", "start a service", "remove a service", "keep awake", "look at ports", "reach a port",
	}
	looks := map[string]func(name string) error{
		"get":              func(name string) error { _, err := c.Get(ctx, name); return err },
		"list":             func(name string) error { _, err := c.List(ctx, name); return err },
		"list sessions":    func(name string) error { _, err := c.Sessions(ctx, name); return err },
		"list checkpoints": func(name string) error { _, err := c.Checkpoints(ctx, name); return err },
		"list services":    func(name string) error { _, err := c.Services().List(ctx, name); return err },
		"policy":           func(name string) error { _, err := c.Policies().Network(ctx, name); return err },
		"denials":          func(name string) error { _, err := c.Policies().Denials(ctx, name); return err },
		"update": func(name string) error {
			_, err := c.Update(ctx, name, sprites.Update{Labels: &[]string{"l"}})
			return err
		},
		"watch the list": func(name string) error {
			enough := errors.New("enough")
			if err := c.WatchList(ctx, name, func(sprites.SpriteState) error { return enough }); !errors.Is(err, enough) {
				return err
			}
			return nil
		},
	}
	if len(order) != len(uses) {
		t.Fatalf("%d of %d calls have their turn", len(order), len(uses))
	}
	w.sprite("s")
	w.sh("s", "echo kept >/workspace/kept")
	sleep := func(want string) {
		t.Helper()
		w.settle("s")
		pass(2 * time.Hour)
		for i := 0; w.asleep("s") != want; i++ {
			if i == 3 {
				t.Fatalf("the sprite is %s, want %s", w.status("s"), want)
			}
		}
	}
	for _, from := range []string{"warm", "cold"} {
		for _, name := range order {
			if from == "cold" && name == "start a service" {
				continue // that one does not let it get cold
			}
			if name == "start a service" || name == "remove a service" && from == "cold" {
				sleep("warm")
			} else {
				sleep(from)
			}
			if err := uses[name]("s"); err != nil {
				t.Errorf("%s of a %s sprite: %v", name, from, err)
			}
			if got := w.status("s"); got != "running" {
				t.Errorf("after %s the %s sprite is %s", name, from, got)
			}
		}
		sleep(from)
		for name, look := range looks {
			if err := look("s"); err != nil {
				t.Errorf("%s of a %s sprite: %v", name, from, err)
			}
			if got := w.status("s"); got != from {
				t.Errorf("after %s the %s sprite is %s", name, from, got)
			}
		}
		if _, err := c.ReadFile(ctx, "s", "/workspace/kept", 99); err != nil {
			t.Error(err)
		}
	}
}
