package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/services"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// listener is a service that answers on a port and never ends a connection.
const listener = `$|=1; use IO::Socket::INET; my $s=IO::Socket::INET->new(Listen=>9,LocalAddr=>"127.0.0.1:8181",ReuseAddr=>1) or die; print "up\n"; my @all; while(my $c=$s->accept){ syswrite($c,"hello\n"); push @all,$c }`

// everything is all that a client can have open on a sprite. Each call says in ready that it is open, and returns when it
// has ended.
var everything = map[string]func(ctx context.Context, w *world, ready func()) error{
	"command": func(ctx context.Context, w *world, ready func()) error {
		_, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"sh", "-c", "echo begun; exec sleep 1000"}, Stdout: onFirst(ready)})
		return err
	},
	"terminal": func(ctx context.Context, w *world, ready func()) error {
		_, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"sh", "-c", "echo begun; exec cat"}, TTY: true, Stdout: onFirst(ready)})
		return err
	},
	"joined": func(ctx context.Context, w *world, ready func()) error {
		named := make(chan string, 1)
		led := make(chan error, 1)
		go func() { // awaited below
			_, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"sh", "-c", "echo begun; exec sleep 1000"}, OnSession: func(id string) { named <- id }})
			led <- err
		}()
		_, err := w.client.Attach(ctx, "s", <-named, sprites.Exec{Stdout: onFirst(ready)})
		return errors.Join(err, <-led)
	},
	"files": func(ctx context.Context, w *world, ready func()) error {
		watch, err := w.client.Files().Watch(ctx, "s", []string{"/workspace"}, true)
		if err != nil {
			return err
		}
		defer watch.Close()
		for err == nil {
			if _, err = watch.Next(ctx); err == nil {
				ready()
			}
		}
		return err
	},
	"connection": func(ctx context.Context, w *world, ready func()) error {
		conn, err := w.client.Dial(ctx, "s", "localhost", 8181)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		_, err = io.Copy(onFirst(ready), conn)
		return err
	},
	"log": func(ctx context.Context, w *world, ready func()) error {
		return w.client.Services().Logs(ctx, "s", "listener", 10, sprites.ServiceCall{Duration: services.MaxFollow, OnEvent: func(sprites.ServiceEvent) error {
			ready()
			return nil
		}})
	},
}

// serve runs a service of sprite s, and returns when it says that it is up.
func (w *world) serve(name, cmd string, args ...string) {
	w.Helper()
	if err := w.client.Services().Put(w.Context(), "s", sprites.Service{Name: name, Cmd: cmd, Args: args}, sprites.ServiceCall{}); err != nil {
		w.Fatal(err)
	}
	up := errors.New("up")
	err := w.client.Services().Logs(w.Context(), "s", name, 10, sprites.ServiceCall{Duration: services.MaxFollow, OnEvent: func(e sprites.ServiceEvent) error {
		if strings.Contains(e.Data, "up") {
			return up
		}
		return nil
	}})
	if !errors.Is(err, up) {
		w.Fatal(err)
	}
}

// onFirst calls fn with the first of what is written.
func onFirst(fn func()) io.Writer { return writerFunc(func(p []byte) { fn() }) }

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// Whatever is open on a sprite ends with its sandbox, and what is about more than that goes on: nothing hangs, and nobody
// takes a command that was ended for one that has succeeded.
func TestEverythingOpen(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip(err)
	}
	// How each ends; "" goes on.
	const lost, over = "lost session", "the watch is over"
	for name, c := range map[string]struct {
		act  func(w *world) error
		ends map[string]string
	}{
		"restore": {func(w *world) error { return w.client.Restore(w.Context(), "s", "v1") }, map[string]string{
			"command": lost, "terminal": lost, "joined": lost, "files": over, "connection": "nil", "log": ""}},
		"restart": {func(w *world) error { return w.client.Restart(w.Context(), "s") }, map[string]string{
			"command": lost, "terminal": lost, "joined": lost, "files": over, "connection": "nil", "log": ""}},
		"delete": {func(w *world) error { return w.client.Delete(w.Context(), "s") }, map[string]string{
			"command": lost, "terminal": lost, "joined": lost, "files": over, "connection": "nil", "log": "nil"}},
		"the host ends": {func(w *world) error { return w.host.Close() }, map[string]string{
			"command": lost, "terminal": lost, "joined": lost, "files": "broke", "connection": "read from the sprite", "log": "read the log"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop()}, func(string) {})
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			w.serve("listener", "perl", "-e", listener)
			if _, err := w.client.Checkpoint(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type end struct {
				what string
				err  error
			}
			ends, open := make(chan end, len(everything)), make(chan string)
			for what, run := range everything {
				go func() { // awaited below
					first := true
					err := run(ctx, w, func() {
						if first {
							first = false
							open <- what
						}
					})
					ends <- end{what, err}
				}()
			}
			for range everything {
				select {
				case <-open:
				case e := <-ends:
					t.Fatalf("%s ended before: %v", e.what, e.err)
				}
			}
			if err := c.act(w); err != nil {
				t.Fatal(err)
			}
			going := 0
			for _, how := range c.ends {
				if how == "" {
					going++
				}
			}
			got, patience := map[string]bool{}, time.NewTimer(time.Minute)
			defer patience.Stop()
			for range len(everything) - going {
				var e end
				select {
				case e = <-ends:
				case <-patience.C:
					t.Fatalf("only these have ended: %v", got)
				}
				got[e.what] = true
				if name == "the host ends" && e.what == "connection" && e.err == nil {
					continue // the program at its other end closed it before the host did
				}
				if want, said := c.ends[e.what], strings.ReplaceAll(fmt.Sprint(e.err), "<nil>", "nil"); want == "" || !strings.Contains(said, want) {
					t.Errorf("%s ends with %v, want %q", e.what, e.err, want)
				}
			}
			cancel()
			for range going {
				if e := <-ends; c.ends[e.what] != "" || ctx.Err() == nil {
					t.Errorf("%s goes on, want an end with %q", e.what, c.ends[e.what])
				}
			}
		})
	}
}
