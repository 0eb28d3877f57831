package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// TestProgramsInstallWithEachDriver installs where programs do, however layers are kept. Checkpoints, restores and forks keep
// it, comparisons name it and nothing else, and what the host has in /usr/local is seen and stays.
func TestProgramsInstallWithEachDriver(t *testing.T) {
	const install = `set -e
for dir in /app /data/mine /opt /srv /mnt /var/local /usr/local /usr/local/bin /usr/local/lib /usr/local/lib/mine /usr/local/share /usr/local/include; do
	mkdir -p $dir && echo x >$dir/mine-f
done
printf '#!/bin/sh\necho mine\n' >/usr/local/bin/mine-tool && chmod +x /usr/local/bin/mine-tool && mine-tool`
	var hosts []string // entries of the host's
	for _, pattern := range []string{"/usr/local/*", "/usr/local/bin/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, found...)
	}
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs, layer.CAS} {
		t.Run(string(kind), func(t *testing.T) {
			w := driverWorld(t, kind, func(string) {})
			if w.host.confiner.Confined().Plain {
				t.Skip("without namespaces a sprite is not kept apart")
			}
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			w.do("s", "true")
			before := w.checkpoint()
			if out := w.do("s", install); out != "mine\n" {
				t.Errorf("install: %q", out)
			}
			for _, path := range hosts {
				if _, err := os.Stat(path); err == nil { // a link may lead nowhere
					w.do("s", "test -e "+path)
				}
			}
			if _, err := os.Lstat("/usr/local/mine-f"); err == nil {
				t.Fatal("the host's /usr/local was written to")
			}
			changes, err := w.client.Diff(t.Context(), "s", before, "")
			if err != nil {
				t.Fatal(err)
			}
			installed := false
			for _, c := range changes {
				installed = installed || c.Path == "/usr/local/bin/mine-tool"
				if c.Change == "deleted" {
					t.Errorf("the comparison says that %s was removed", c.Path)
				}
				for _, path := range hosts {
					if c.Path == path && path != "/usr/local/bin" && path != "/usr/local/lib" && path != "/usr/local/share" && path != "/usr/local/include" {
						t.Errorf("the comparison names %s, which the sprite did not touch", path)
					}
				}
			}
			if !installed {
				t.Errorf("the comparison does not name the installed program: %+v", changes)
			}
			after := w.checkpoint()
			if _, err := w.client.Fork(t.Context(), "s", after, "copy"); err != nil {
				t.Fatal(err)
			}
			w.do("copy", "mine-tool && cat /app/mine-f /opt/mine-f /usr/local/lib/mine/mine-f")
			if err := w.client.Restore(t.Context(), "s", before); err != nil {
				t.Fatal(err)
			}
			w.do("s", "! test -e /usr/local/bin/mine-tool && ! test -e /app")
			if err := w.client.Restore(t.Context(), "s", after); err != nil {
				t.Fatal(err)
			}
			w.do("s", "mine-tool && rm /usr/local/bin/mine-tool && ! test -e /usr/local/bin/mine-tool")
			w.check()
		})
	}
}
