package image

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestUsers(t *testing.T) {
	const least = "root:x:0:0:root:/root:/bin/sh\nsprite:x:1000:1000:sprite:/home/sprite:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	const sprite = "sprite:x:1000:1000:sprite:/home/sprite:/bin/sh\n"
	for name, c := range map[string]struct {
		make func(etc string) error
		want string
	}{
		"no list":        {func(string) error { return nil }, least},
		"another 1000":   {list("root:x:0:0::/:/bin/ash\nnode:x:1000:1000::/home/node:/bin/bash\nnobody:x:65534:65534::/:/no"), "root:x:0:0::/:/bin/ash\n" + sprite + "node:x:1000:1000::/home/node:/bin/bash\nnobody:x:65534:65534::/:/no\n"},
		"another sprite": {list("root:x:0:0::/:/bin/ash\nsprite:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/no\n"), "root:x:0:0::/:/bin/ash\nnobody:x:65534:65534::/:/no\n" + sprite},
		"no lines":       {list("\x00\x00:\n::::::\nroot\n\n"), least},
		"too large":      {list(strings.Repeat("a:x:5:5:::\n", maxUsers/8)), least},
		"a pipe":         {func(etc string) error { return syscall.Mkfifo(filepath.Join(etc, "passwd"), 0o644) }, least},
		"a folder":       {func(etc string) error { return os.Mkdir(filepath.Join(etc, "passwd"), 0o755) }, least},
		"a way out":      {func(etc string) error { return os.Symlink("/etc/passwd", filepath.Join(etc, "passwd")) }, least},
		"a way around": {func(etc string) error {
			return os.Symlink("../../../../../../../../etc/passwd", filepath.Join(etc, "passwd"))
		}, least},
		"a loop":        {func(etc string) error { return os.Symlink("passwd", filepath.Join(etc, "passwd")) }, least},
		"a link inside": {func(etc string) error { return os.Symlink("../list", filepath.Join(etc, "passwd")) }, "root:x:0:0:of the image:/:/bin/sh\n" + sprite + strings.SplitAfter(least, "\n")[2]},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			digest := "sha256:" + strings.Repeat("0", 64)
			etc := filepath.Join(s.Dir(digest), "etc")
			if err := os.MkdirAll(etc, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.Dir(digest), "list"), []byte("root:x:0:0:of the image:/:/bin/sh\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := c.make(etc); err != nil {
				t.Fatal(err)
			}
			passwd, group, err := s.Users(digest)
			if err != nil || passwd != c.want {
				t.Errorf("passwd = %q, %v, want %q", passwd, err, c.want)
			}
			if want := "root:x:0:\nsprite:x:1000:\nnogroup:x:65534:\n"; group != want {
				t.Errorf("group = %q, want %q", group, want)
			}
		})
	}
}

func list(text string) func(etc string) error {
	return func(etc string) error { return os.WriteFile(filepath.Join(etc, "passwd"), []byte(text), 0o644) }
}
