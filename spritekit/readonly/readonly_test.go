package readonly

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExcept(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work/repo/.git", "work/lib", "work/.own", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("lib", filepath.Join(dir, "work/link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ protected, kept, want string }{
		{"work/lib", "", "other work/.own work/repo"},
		{"work/lib work/repo/.git", "", "other work/.own"},
		{"work", "work/.own", "other work/.own"},
		{"work work/.own", "work/.own", "other"},
		{"/", "work missing", "work"},
		{"/ work/repo", "work", "work/.own work/lib"},
	} {
		var lists [2][]string
		for i, list := range []string{test.protected, test.kept} {
			for _, name := range strings.Fields(list) {
				if name != "/" {
					name = filepath.Join(dir, name)
				}
				lists[i] = append(lists[i], name)
			}
		}
		all, err := Except(lists[0], lists[1])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, path := range all {
			if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
				got = append(got, rel)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != test.want {
			t.Errorf("Except(%s, %s) = %v below the folder, want %s", test.protected, test.kept, got, test.want)
		}
		if slices.Contains(all, "/") || slices.Contains(all, dir) || slices.Contains(all, filepath.Join(dir, "work")) != (test.want == "work") {
			t.Errorf("Except(%s, %s) = %v", test.protected, test.kept, all)
		}
	}
}
