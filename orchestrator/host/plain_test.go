package host

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestPlain runs commands where namespaces are refused: the folders have their host names, and commands are told.
func TestPlain(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.host.confiner.Confined = func() confine.Confinement {
		return confine.Confinement{Plain: true, Isolation: spec.LevelProcess, Text: "plain process tree (test)"}
	}
	ctx := t.Context()
	if _, err := w.client.Create(ctx, sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	w.write("one")
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	code, err := w.client.Exec(ctx, "s", sprites.Exec{
		Cmd: []string{"sh", "-c", `pwd; echo $LATTICE_WORKSPACE; cat f; printf two > f; test -S $LATTICE_SOCKET`}, Dir: "/workspace", Stdout: &out,
	})
	dir := filepath.Join(w.host.layers.TreeDir(rec.Tree), "workspace")
	if want := dir + "\n" + dir + "\none"; code != 0 || err != nil || out.String() != want {
		t.Errorf("Exec = %d, %v, %q, want %q", code, err, out.String(), want)
	}
	if got := w.state(); got != "two" {
		t.Errorf("state = %q", got)
	}
	if w.host.Isolation() != "process" || !strings.HasPrefix(w.host.Mode(), "plain process tree") {
		t.Errorf("Isolation, Mode = %q, %q", w.host.Isolation(), w.host.Mode())
	}
}
