package spritestest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// env is the environment of one subtest.
type env struct {
	*testing.T
	ctx    context.Context
	target Target
	client *sprites.Client
	name   string
}

func (e env) requireCapability(capability string) {
	e.Helper()
	if !slices.Contains(e.target.Capabilities, capability) {
		e.Skip("this server does not offer " + capability)
	}
}

// runScript runs a script and returns its output.
func (e env) runScript(script string, stdin io.Reader) (code int, stdout, stderr string) {
	e.Helper()
	if slices.Contains(e.target.Capabilities, "translated") {
		script = strings.ReplaceAll(script, "/workspace", "${LATTICE_WORKSPACE:?}")
	}
	var out, errs bytes.Buffer
	code, err := e.client.Exec(e.ctx, e.name, sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdin: stdin, Stdout: &out, Stderr: &errs})
	if err != nil {
		e.Fatalf("sh -c %q: %v", script, err)
	}
	return code, out.String(), errs.String()
}

// mustRun runs a script that has to succeed.
func (e env) mustRun(script string) string {
	e.Helper()
	code, out, errs := e.runScript(script, nil)
	if code != 0 {
		e.Fatalf("sh -c %q = exit %d, stderr %q", script, code, errs)
	}
	return out
}

// beginExec starts a command and returns when its session is named and it has said "ready".
func (e env) beginExec(ctx context.Context, in sprites.Exec) (session string, result func() (int, error)) {
	e.Helper()
	named, ready := make(chan string, 1), newMarker("ready")
	in.OnSession = func(id string) { named <- id }
	in.Stdout = ready
	type outcome struct {
		code int
		err  error
	}
	done := make(chan outcome, 1)
	go func() { // awaited by result or by the test's end
		code, err := e.client.Exec(ctx, e.name, in)
		done <- outcome{code, err}
	}()
	select {
	case session = <-named:
	case o := <-done:
		e.Fatalf("the command ended before its session was named: %+v", o)
	case <-e.ctx.Done():
		e.Fatal("no session was named")
	}
	select {
	case <-ready.seen:
	case o := <-done:
		e.Fatalf("the command ended before it was ready: %+v", o)
	case <-e.ctx.Done():
		e.Fatal("the command never was ready")
	}
	return session, func() (int, error) {
		select {
		case o := <-done:
			return o.code, o.err
		case <-e.ctx.Done():
			e.Fatal("the command never ended")
			return 0, nil
		}
	}
}

// Target is the server under test. Capabilities name its extensions: "structured-id" (the complete
// line of a checkpoint carries checkpoint_id), "auto-checkpoint" (a restore keeps the state before it), "guard" (foreign
// Host headers and web origins are refused), "inside" (/.sprite/api.sock answers), "bytes-names" (names that are no UTF-8 are told
// as bytes, too), "translated" (commands
// know /workspace by another name, and have no view of their own), "control" (commands run over a control
// channel, too).
type Target struct {
	BaseURL, Token string
	HTTPClient     *http.Client
	Capabilities   []string
}

// marker is a writer that tells when a word has been written.
type marker struct {
	word string
	text bytes.Buffer
	seen chan struct{}
}

func newMarker(word string) *marker { return &marker{word: word, seen: make(chan struct{})} }
