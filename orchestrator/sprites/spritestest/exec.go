package spritestest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

var execTests = map[string]func(env){
	"exec exit code": func(e env) {
		for _, want := range []int{0, 1, 42, 255} {
			if got, _, _ := e.runScript(fmt.Sprintf("exit %d", want), nil); got != want {
				e.Errorf("exit %d = %d", want, got)
			}
		}
	},
	"exec keeps stdout and stderr apart": func(e env) {
		if _, out, errs := e.runScript("echo out; echo err >&2", nil); out != "out\n" || errs != "err\n" {
			e.Errorf("stdout, stderr = %q, %q", out, errs)
		}
	},
	"exec death by signal is 128+n": func(e env) {
		if code, _, _ := e.runScript("kill -TERM $$", nil); code != 143 {
			e.Errorf("after SIGTERM = %d, want 143", code)
		}
	},
	"exec of a missing program is 127 or refused": func(e env) {
		code, err := e.client.Exec(e.ctx, e.name, sprites.Exec{Cmd: []string{"no-such-program"}})
		var api *sprites.APIError
		if refused := errors.As(err, &api) && api.Status < 500; !refused && (err != nil || code != 127) {
			e.Errorf("Exec = %d, %v", code, err)
		}
	},
	"exec of a missing sprite": func(e env) {
		_, err := e.client.Exec(e.ctx, "no-such-sprite", sprites.Exec{Cmd: []string{"true"}})
		if !errors.Is(err, sprites.ErrNotFound) {
			e.Errorf("Exec = %v, want ErrNotFound", err)
		}
	},
	"exec environment and folder": func(e env) {
		var out bytes.Buffer
		_, err := e.client.Exec(e.ctx, e.name, sprites.Exec{
			Cmd: []string{"sh", "-c", `echo "$GREETING"; pwd`}, Env: []string{"GREETING=a b=c", "PATH=/usr/bin:/bin"}, Dir: "/tmp", Stdout: &out,
		})
		if err != nil || out.String() != "a b=c\n/tmp\n" {
			e.Errorf("Exec = %q, %v", out.String(), err)
		}
	},
	"exec without stdin reads its end": func(e env) {
		if code, out, _ := e.runScript("cat; echo end", nil); code != 0 || out != "end\n" {
			e.Errorf("= %d, %q", code, out)
		}
	},
	"exec 1 MiB of binary through both ways": func(e env) {
		want := make([]byte, 1<<20)
		if _, err := rand.Read(want); err != nil {
			e.Fatal(err)
		}
		if code, out, _ := e.runScript("cat", bytes.NewReader(want)); code != 0 || out != string(want) {
			e.Errorf("cat = exit %d and %d bytes, want the same %d", code, len(out), len(want))
		}
	},
	"exec output is not reshaped": func(e env) {
		// Each byte of a rune in a write of its own.
		if _, out, _ := e.runScript(`printf '\342'; printf '\202'; printf '\254'; printf '\377'`, nil); out != "€\xff" {
			e.Errorf("stdout = %q", out)
		}
	},
	"exec of 20 fast commands at once loses nothing": func(e env) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				var out bytes.Buffer
				code, err := e.client.Exec(e.ctx, e.name, sprites.Exec{Cmd: []string{"echo", fmt.Sprint(i)}, Stdout: &out})
				if err != nil || code != 0 || out.String() != fmt.Sprintln(i) {
					e.Errorf("echo %d = %d, %q, %v", i, code, out.String(), err)
				}
			})
		}
		all.Wait()
	},
	"exec ends although a child holds the output": func(e env) {
		if code, out, _ := e.runScript("sleep 600 & echo done", nil); code != 0 || out != "done\n" {
			e.Errorf("= %d, %q", code, out)
		}
	},
	"signal through the socket": func(e env) {
		signals := make(chan string, 1)
		_, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done"}, Signals: signals})
		signals <- "USR1"
		if code, err := result(); code != 7 || err != nil {
			e.Errorf("= %d, %v, want 7", code, err)
		}
	},
	"kill by id, and the session leaves the list": func(e env) {
		id, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "echo ready; sleep 600"}})
		list, err := e.client.Sessions(e.ctx, e.name)
		if err != nil || len(list) != 1 || list[0].ID != id || !strings.Contains(list[0].Command, "sleep 600") {
			e.Errorf("Sessions = %+v, %v", list, err)
		}
		if err := e.client.Kill(e.ctx, e.name, id, "TERM"); err != nil {
			e.Error(err)
		}
		if code, err := result(); code != 143 || err != nil {
			e.Errorf("= %d, %v, want 143", code, err)
		}
		if list, err := e.client.Sessions(e.ctx, e.name); err != nil || len(list) != 0 {
			e.Errorf("Sessions after kill = %+v, %v", list, err)
		}
		if err := e.client.Kill(e.ctx, e.name, id, "TERM"); err != nil && !errors.Is(err, sprites.ErrNotFound) {
			e.Errorf("second Kill = %v", err)
		}
		if _, err := e.client.Attach(e.ctx, e.name, id, sprites.Exec{}); !errors.Is(err, sprites.ErrNotFound) {
			e.Errorf("Attach to an ended session = %v, want ErrNotFound", err)
		}
	},
	"a lost connection is no exit, and attach finds the session": func(e env) {
		ctx, cut := context.WithCancel(e.ctx)
		id, result := e.beginExec(ctx, sprites.Exec{
			Cmd: []string{"sh", "-c", "echo ready; read line; echo got $line; exit 5"}, Stdin: never{e.ctx}, MaxRunAfterDisconnect: -1,
		})
		cut()
		var lost *sprites.LostError
		if code, err := result(); !errors.As(err, &lost) || lost.Session != id || code != 0 {
			e.Errorf("after the cut = %d, %v, want a LostError of session %s", code, err, id)
		}
		var out bytes.Buffer
		code, err := e.client.Attach(e.ctx, e.name, id, sprites.Exec{Stdin: strings.NewReader("word\n"), Stdout: &out})
		if code != 5 || err != nil || out.String() != "ready\ngot word\n" {
			e.Errorf("Attach = %d, %q, %v", code, out.String(), err)
		}
	},
	"disconnect grace ends the command": func(e env) {
		ctx, cut := context.WithCancel(e.ctx)
		_, result := e.beginExec(ctx, sprites.Exec{
			Cmd: []string{"sh", "-c", "echo ready; sleep 600"}, MaxRunAfterDisconnect: time.Millisecond,
		})
		cut()
		_, _ = result()
		// The wait is for the server's timer; the list is its only witness.
		for e.ctx.Err() == nil {
			if list, err := e.client.Sessions(e.ctx, e.name); err == nil && len(list) == 0 {
				return
			}
		}
		e.Error("the session was still there")
	},
}

var terminalTests = map[string]func(env){
	"terminal has its size before the start": func(e env) {
		var out bytes.Buffer
		code, err := e.client.Exec(e.ctx, e.name, sprites.Exec{Cmd: []string{"stty", "size"}, TTY: true, Rows: 31, Cols: 97, Stdout: &out})
		if code != 0 || err != nil || strings.TrimSpace(out.String()) != "31 97" {
			e.Errorf("stty size = %d, %q, %v", code, out.String(), err)
		}
	},
	"terminal exit code and input": func(e env) {
		var out bytes.Buffer
		code, err := e.client.Exec(e.ctx, e.name, sprites.Exec{
			Cmd: []string{"sh", "-c", "read line; echo got $line; exit 3"}, TTY: true, Stdin: strings.NewReader("word\n"), Stdout: &out,
		})
		if code != 3 || err != nil || !strings.Contains(out.String(), "got word") {
			e.Errorf("= %d, %q, %v", code, out.String(), err)
		}
	},
	"terminal is joined, and resized by who joins": func(e env) {
		ctx, cut := context.WithCancel(e.ctx)
		id, result := e.beginExec(ctx, sprites.Exec{
			Cmd: []string{"sh", "-c", "echo ready; until [ \"$(stty size)\" = '50 120' ]; do sleep 0.02; done; read line; echo got $line; exit 9"},
			TTY: true, Stdin: never{e.ctx}, MaxRunAfterDisconnect: -1,
		})
		cut()
		_, _ = result()
		resize := make(chan sprites.Size, 1)
		resize <- sprites.Size{Rows: 50, Cols: 120}
		var out bytes.Buffer
		code, err := e.client.Attach(e.ctx, e.name, id, sprites.Exec{TTY: true, Stdin: strings.NewReader("word\n"), Stdout: &out, Resize: resize})
		if code != 9 || err != nil || !strings.Contains(out.String(), "ready") || !strings.Contains(out.String(), "got word") {
			e.Errorf("Attach = %d, %q, %v", code, out.String(), err)
		}
	},
	"terminal interrupts what runs in it": func(e env) {
		typed, keys := io.Pipe()
		defer keys.Close()
		_, result := e.beginExec(e.ctx, sprites.Exec{
			Cmd: []string{"sh", "-c", "trap 'exit 7' INT; echo ready; while :; do sleep 0.02; done"}, TTY: true, Stdin: typed,
		})
		if _, err := keys.Write([]byte{3}); err != nil {
			e.Fatal(err)
		}
		if code, err := result(); code != 7 || err != nil {
			e.Errorf("= %d, %v, want 7", code, err)
		}
	},
	"terminal is resized": func(e env) {
		resize := make(chan sprites.Size, 1)
		_, result := e.beginExec(e.ctx, sprites.Exec{
			Cmd: []string{"sh", "-c", "echo ready; until [ \"$(stty size)\" = '50 120' ]; do sleep 0.02; done; exit 9"}, TTY: true, Resize: resize,
		})
		resize <- sprites.Size{Rows: 50, Cols: 120}
		if code, err := result(); code != 9 || err != nil {
			e.Errorf("= %d, %v", code, err)
		}
	},
}

// never is an input that does not come until the test ends.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}
