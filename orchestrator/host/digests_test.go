package host

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A file of 15 TiB without content that a sprite checkpoints costs no time: others have their digests soon, it is verified,
// and so is a tree that is deeper than any path is long.
func TestSpritesCannotKeepDigestsBusy(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Plain {
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
