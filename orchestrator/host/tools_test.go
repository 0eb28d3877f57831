package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// What a request asks a sprite to be shown is judged by the host's rules, when it is made and whenever it starts.
func TestToolsOfASprite(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	dir := t.TempDir()
	good, bad, gone := filepath.Join(dir, "good"), filepath.Join(dir, "bad"), filepath.Join(dir, "gone")
	if err := errors.Join(os.Mkdir(good, 0o755), os.Mkdir(bad, 0o755), os.Mkdir(gone, 0o755)); err != nil {
		t.Fatal(err)
	}
	create := func(name string, tools ...string) (sprites.Sprite, error) {
		return w.client.Create(t.Context(), sprites.Create{Name: name, Tools: tools})
	}
	var refused *sprites.APIError
	if _, err := create("a", good); !errors.As(err, &refused) || refused.Status != 403 {
		t.Errorf("a tool of a host without rules = %v, want 403", err)
	}
	w.host.core.Config.CheckTool = func(path string) (string, error) {
		if real, err := filepath.EvalSymlinks(path); err != nil || strings.HasPrefix(real, bad) {
			return "", errors.New("not that one")
		}
		return filepath.Clean(path), nil
	}
	if _, err := create("a", good, bad); !errors.As(err, &refused) || refused.Status != 400 || !strings.Contains(err.Error(), "not that one") {
		t.Errorf("a refused tool = %v, want 400 and why", err)
	}
	if _, err := create("a", make([]string, confine.MaxTools+1)...); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("too many tools = %v, want 400", err)
	}
	s, err := create("a", good, gone, good+"/")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{good, gone}, s.Tools); d != "" {
		t.Errorf("tools of the sprite (-want +got):\n%s", d)
	}
	rec, err := w.host.core.Store.Sprite("a")
	if err != nil {
		t.Fatal(err)
	}
	// One is removed, the other leads to what is refused by now.
	if err := errors.Join(os.Remove(gone), os.Remove(good), os.Symlink(bad, good)); err != nil {
		t.Fatal(err)
	}
	if got := w.host.confiner.Tools(rec); got != nil {
		t.Errorf("shown at the next start: %v", got)
	}
}

// A sprite with an image sees what the host's operator or its maker asked for, and not the host's own toolchains.
func TestToolsBesideAnImage(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	own, asked, named := t.TempDir(), t.TempDir(), t.TempDir()
	w.host.core.Config.Tools, w.host.core.Config.AskedTools = []string{own}, []string{asked}
	for image, want := range map[string][]string{"": {asked, own, named}, "sha256:0": {asked, named}} {
		if d := cmp.Diff(want, w.host.confiner.Tools(records.Sprite{Image: image, Tools: []string{named}})); d != "" {
			t.Errorf("image %q (-want +got):\n%s", image, d)
		}
	}
}
