package host

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// What is short for the moment is answered as such, so that clients try again; what will be the same again is not.
func TestShortagesAre503(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{syscall.EMFILE, http.StatusServiceUnavailable, sprites.CodeShortage},
		{syscall.ETOOMANYREFS, http.StatusServiceUnavailable, sprites.CodeShortage},
		{syscall.EAGAIN, http.StatusServiceUnavailable, sprites.CodeShortage},
		{syscall.ENOMEM, http.StatusServiceUnavailable, sprites.CodeShortage},
		{&spec.Shortage{Err: syscall.ENOSPC}, http.StatusServiceUnavailable, sprites.CodeShortage}, // of namespaces
		{syscall.ENOSPC, http.StatusInsufficientStorage, "disk_full"},
		{&spec.Refusal{Cause: "no"}, http.StatusInternalServerError, "internal"},
		{errors.Join(spec.ErrDied, errors.New("killed")), http.StatusBadGateway, sprites.CodeSandboxDied},
		{errors.Join(spec.ErrDied, syscall.ENOMEM), http.StatusBadGateway, sprites.CodeSandboxDied}, // its command may have begun
	} {
		if got := wire.Classify(fmt.Errorf("start sprite x: %w", c.err)); got.Status != c.status || got.Code != c.code {
			t.Errorf("%v is answered with %d %s, want %d %s", c.err, got.Status, got.Code, c.status, c.code)
		}
	}
}

// A sprite that has used up its terminals gets no further one, and whoever asks for it is told to come again; its neighbour
// has its own.
func TestTerminalsOfASpriteAreItsOwn(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Plain {
		t.Skip("no namespaces here")
	}
	for _, name := range []string{"s", "neighbour"} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	say, hear := io.Pipe()
	hold, let := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		const take = `while exec {n}<>/dev/ptmx; do :; done 2>/dev/null; echo full; read wait`
		_, err := w.client.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"bash", "-c", take}, Stdin: hold, Stdout: hear})
		ended <- err
	}()
	if _, err := io.ReadFull(say, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	terminal := sprites.Exec{Cmd: []string{"true"}, TTY: true, Rows: 24, Cols: 80}
	var answer *sprites.APIError
	if _, err := w.client.Exec(t.Context(), "s", terminal); !errors.As(err, &answer) || answer.Status != http.StatusServiceUnavailable ||
		answer.Code != sprites.CodeShortage || answer.RetryAfter != time.Second {
		t.Errorf("a further terminal: %v, want an answer 503 with a time", err)
	}
	if code, err := w.client.Exec(t.Context(), "neighbour", terminal); code != 0 || err != nil {
		t.Errorf("the neighbour's terminal: %d, %v", code, err)
	}
	let.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, err := w.client.Exec(t.Context(), "s", terminal); code != 0 || err != nil {
		t.Errorf("a terminal afterwards: %d, %v", code, err)
	}
}
