package core

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A disk that was mounted again is another one, as far as files go that were not synced; and it stays the same until then.
func TestDiskMountedAgain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skip("no disk can be made here: ", err)
	}
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "at")
	run := func(argv ...string) error {
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %v: %s", strings.Join(argv, " "), err, out)
		}
		return err
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := run(mkfs, "-q", image); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 3 {
		if run("mount", "-o", "loop", image, at) != nil {
			t.Skip("no disk can be mounted here")
		}
		for name, id := range map[string]func(string) string{"mount": mountID, "superblock": superblockID} {
			first := id(at)
			if again := id(at); again != first {
				t.Errorf("the id of the %s changes from %q to %q", name, first, again)
			}
			switch {
			case first == "":
				t.Logf("the %s has no id here", name)
			case seen[name+first]:
				t.Errorf("the %s has the id %q once more", name, first)
			}
			seen[name+first] = true
		}
		if err := run("umount", at); err != nil {
			t.Fatal(err)
		}
	}
}
