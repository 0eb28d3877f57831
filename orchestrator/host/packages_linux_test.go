package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A package whose script adds a user and changes owners installs by sudo, as on the remote service, and what it made is there
// after a checkpoint, a restore and in a fork. Deleting the sprites leaves nothing.
func TestPackageInstalls(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg here: ", err)
	}
	root := smallRoot(t, "/usr/bin/dpkg", "/usr/bin/dpkg-deb", "/usr/bin/dpkg-split", "/usr/bin/dpkg-query", "/usr/bin/tar", "/usr/sbin/useradd", "/usr/sbin/groupadd",
		"/bin/chown", "/bin/rm", "/bin/true", "/sbin/ldconfig", "/bin/chmod", "/usr/bin/touch", "/usr/bin/diff")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"var/lib/dpkg/status": "", "var/lib/dpkg/info/format": "1\n", "etc/group": "root:x:0:\n", "etc/shadow": "", "etc/gshadow": "", "etc/login.defs": "USERGROUPS_ENAB yes\nUID_MIN 1000\nSYS_UID_MIN 100\nSYS_UID_MAX 999\nSYS_GID_MIN 100\nSYS_GID_MAX 999\n",
		"sbin/start-stop-daemon": "#!/bin/sh\n", "var/lib/dpkg/updates/.keep": "", "var/log/.keep": "",
	} {
		write(filepath.Join(root, path), text)
	}
	parts := t.TempDir()
	write(filepath.Join(parts, "DEBIAN", "control"), "Package: mine\nVersion: 1\nArchitecture: all\nMaintainer: me <me@example.com>\nDescription: a test\n")
	write(filepath.Join(parts, "DEBIAN", "postinst"), "#!/bin/sh\nset -e\nuseradd --system --no-log-init --home-dir /var/lib/mine mine\nchown mine:mine /var/lib/mine /var/lib/mine/data\nchmod 600 /var/lib/mine/data\n")
	write(filepath.Join(parts, "var", "lib", "mine", "data"), "kept\n")
	if err := errors.Join(os.Chmod(filepath.Join(parts, "DEBIAN", "postinst"), 0o755), os.Chmod(filepath.Join(root, "sbin", "start-stop-daemon"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(parts, "DEBIAN"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", parts, filepath.Join(root, "srv", "mine.deb")).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	w := imageWorld(t, layer.Overlay)
	w.host.core.Config.ImportImages = true
	ctx := t.Context()
	if _, err := w.client.Create(ctx, sprites.Create{Name: "s", Image: root}); err != nil {
		t.Fatal(err)
	}
	if out, code := w.sh("s", "sudo -u '#7' true 2>&1"); code != 0 {
		t.Skip("needs root or sub-ids, and CGO_ENABLED=0: ", out)
	}
	if out, code := w.sh("s", "dpkg -i /srv/mine.deb 2>&1"); code == 0 {
		t.Errorf("dpkg without sudo succeeds: %s", out)
	}
	if out, code := w.sh("s", "sudo dpkg -i /srv/mine.deb 2>&1"); code != 0 {
		t.Fatalf("sudo dpkg -i: %d: %s", code, out)
	}
	look := func(name string) {
		t.Helper()
		if out, _ := w.sh(name, "stat -c '%U %a' /var/lib/mine/data; cat /var/lib/mine/data 2>/dev/null || echo refused; sudo cat /var/lib/mine/data; sudo -u mine id -un; dpkg-query -f '${Status}' -W mine"); out != "mine 600\nrefused\nkept\nmine\ninstall ok installed" {
			t.Errorf("in %s: %q", name, out)
		}
	}
	look("s")
	point, err := w.client.Checkpoint(ctx, "s", "installed")
	if err != nil {
		t.Fatal(err)
	}
	w.sh("s", "sudo rm -rf /var/lib/mine")
	if err := w.client.Restore(ctx, "s", point.ID); err != nil {
		t.Fatal(err)
	}
	look("s")
	if _, err := w.client.Fork(ctx, "s", point.ID, "fork"); err != nil {
		t.Fatal(err)
	}
	look("fork")
	for _, name := range []string{"s", "fork"} {
		if err := w.client.Delete(ctx, name); err != nil {
			t.Error(err)
		}
	}
	w.host.layers.SetSpares(0)
	w.check()
	for _, folder := range []string{"layers", "cache", "run"} {
		if left, err := os.ReadDir(filepath.Join(w.dir, folder)); err != nil || len(left) > 0 && folder != "layers" {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
	w.host.core.Config.NoRoot = true
	if _, err := w.client.Create(ctx, sprites.Create{Name: "without", Image: root}); err != nil {
		t.Fatal(err)
	}
	if out, code := w.sh("without", "sudo true 2>&1"); code != 1 || !strings.Contains(out, "no_root in the settings") {
		t.Errorf("sudo where root is turned off: %d %q", code, out)
	}
}
