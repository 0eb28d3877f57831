// Package spritestest is the contract of a Sprites API server, as a test suite. Start at [Run]. The embedded host passes
// it always; a remote service can be tried by naming it in a test's environment. Each promise is one subtest on a sprite
// of its own, spoken through the client of package sprites, so that both ends are proved together.
package spritestest

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

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

// patience bounds each subtest; no result depends on it.
const patience = 2 * time.Minute

// env is the environment of one subtest.
type env struct {
	*testing.T
	ctx    context.Context
	target Target
	client *sprites.Client
	name   string
}

// Run tries every promise.
func Run(t *testing.T, target Target) {
	for _, group := range []map[string]func(env){execTests, wireTests, terminalTests, fileTests, checkpointTests, manageTests, refusalTests, controlTests, lifeTests, serviceTests, sessionTests, networkTests, insideTests} {
		run(t, target, group)
	}
}

// RunFiles tries the promises about files alone, for a host that keeps them in more than one way.
func RunFiles(t *testing.T, target Target) { run(t, target, fileTests) }

func run(t *testing.T, target Target, group map[string]func(env)) {
	names := make([]string, 0, len(group))
	for name := range group {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { group[name](newEnv(t, target)) })
	}
}

func newEnv(t *testing.T, target Target) env {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	e := env{T: t, ctx: ctx, target: target, client: sprites.New(target.BaseURL, target.Token, target.HTTPClient)}
	e.name = "suite-" + strings.ToLower(rand.Text()[:10])
	made, err := e.client.Create(ctx, sprites.Create{Name: e.name})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != e.name {
		t.Fatalf("created sprite is called %q, want %q", made.Name, e.name)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.client.Delete(ctx, e.name); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
	return e
}

func (e env) can(capability string) {
	e.Helper()
	if !slices.Contains(e.target.Capabilities, capability) {
		e.Skip("this server does not offer " + capability)
	}
}

// sh runs a script and returns its output.
func (e env) sh(script string, stdin io.Reader) (code int, stdout, stderr string) {
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

// must runs a script that has to succeed.
func (e env) must(script string) string {
	e.Helper()
	code, out, errs := e.sh(script, nil)
	if code != 0 {
		e.Fatalf("sh -c %q = exit %d, stderr %q", script, code, errs)
	}
	return out
}

// begin starts a command and returns when its session is named and it has said "ready".
func (e env) begin(ctx context.Context, in sprites.Exec) (session string, result func() (int, error)) {
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

// marker is a writer that tells when a word has been written.
type marker struct {
	word string
	text bytes.Buffer
	seen chan struct{}
}

func newMarker(word string) *marker { return &marker{word: word, seen: make(chan struct{})} }

func (m *marker) Write(p []byte) (int, error) {
	before := strings.Contains(m.text.String(), m.word)
	m.text.Write(p)
	if !before && strings.Contains(m.text.String(), m.word) {
		close(m.seen)
	}
	return len(p), nil
}
