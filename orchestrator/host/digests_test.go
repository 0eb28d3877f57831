package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A digest that takes long does not keep others waiting, and ends when its layer is removed or its time is up.
func TestLongDigestsLetOthersBegin(t *testing.T) {
	d := newDigests(10*time.Millisecond, time.Hour)
	forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ended := make(chan error, slowDigests+1)
	for i := range slowDigests {
		go func() { ended <- d.background(t.Context(), string(rune('a'+i)), forever) }()
	}
	for len(d.slow) < slowDigests {
		time.Sleep(time.Millisecond)
	}
	begun := false
	if err := d.background(t.Context(), "quick", func(context.Context) error { begun = true; return nil }); err != nil || !begun {
		t.Errorf("a quick one: begun %v, %v", begun, err)
	}
	if err := d.background(t.Context(), "one too many", forever); !errors.Is(err, errSlow) {
		t.Errorf("one slow digest too many ends with %v", err)
	}
	for i := range slowDigests {
		d.stop(string(rune('a' + i)))
		if err := <-ended; !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the digest of a layer that was removed ends with %v", err)
		}
	}
	if len(d.slow)+len(d.turn)+len(d.running) > 0 {
		t.Error("something is left of digests that ended")
	}
	d.limit = 20 * time.Millisecond
	if err := d.background(t.Context(), "late", forever); !errors.Is(err, errSlow) {
		t.Errorf("a digest beyond its time ends with %v", err)
	}
}

// A file of 15 TiB without content that a sprite checkpoints costs no time: others have their digests soon, it is verified,
// and so is a tree that is deeper than any path is long.
func TestSpritesCannotKeepDigestsBusy(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.confined().plain {
		t.Skip("no namespaces here")
	}
	depth := 1500
	if os.Getuid() != 0 {
		depth = 900 // small sprites of an ordinary user are copied, which goes 1,000 folders deep
	}
	for name, make := range map[string]string{
		"s": "import os\nf=open('sparse','wb')\nf.truncate(15<<40)\nf.seek(9<<40)\nf.write(b'x')",
		"d": fmt.Sprintf("import os\nfor n in range(%d):\n os.mkdir('d'); os.chdir('d')\nopen('deepest','w').write('x')", depth),
	} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
		if code, err := w.client.Exec(t.Context(), name, sprites.Exec{Cmd: []string{"python3", "-c", make}, Dir: "/workspace"}); code != 0 || err != nil {
			t.Skipf("the sprite cannot make it: %d, %v", code, err)
		}
		if _, err := w.client.Checkpoint(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		v, err := w.client.Verify(t.Context(), name, "v1")
		if err != nil || !v.OK || time.Since(began) > 10*time.Second {
			t.Errorf("verify %s: %+v, %v, after %v", name, v, err, time.Since(began))
		}
	}
}
