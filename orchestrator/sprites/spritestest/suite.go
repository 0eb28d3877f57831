// Package spritestest is the contract of a Sprites API server, as a test suite. Start at [Run]. The embedded host passes
// it always; a remote service can be tried by naming it in a test's environment. Each promise is one subtest on a sprite
// of its own, spoken through the client of package sprites, so that both ends are proved together.
package spritestest

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// patience bounds each subtest; no result depends on it.
const patience = 2 * time.Minute

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

func (m *marker) Write(p []byte) (int, error) {
	before := strings.Contains(m.text.String(), m.word)
	m.text.Write(p)
	if !before && strings.Contains(m.text.String(), m.word) {
		close(m.seen)
	}
	return len(p), nil
}
