package remote

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSplitRef(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "lib@2")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string][3]string{ // spec → repository, ref, name
		"../lib":                         {"../lib", "", "lib"},
		"../lib/":                        {"../lib/", "", "lib"},
		"../lib@v1.2":                    {"../lib", "v1.2", "lib"},
		"../lib@feature/x":               {"../lib", "feature/x", "lib"},
		"../lib@":                        {"../lib@", "", "lib@"},
		there:                            {there, "", "lib@2"},
		there + "@main":                  {there, "main", "lib@2"},
		"https://host/acme/lib.git":      {"https://host/acme/lib.git", "", "lib"},
		"https://host/acme/lib.git@v1":   {"https://host/acme/lib.git", "v1", "lib"},
		"ssh://git@host/acme/lib":        {"ssh://git@host/acme/lib", "", "lib"},
		"ssh://git@host:22/acme/lib@a/b": {"ssh://git@host:22/acme/lib", "a/b", "lib"},
		"git@host:lib.git":               {"git@host:lib.git", "", "lib"},
		"git@host:acme/lib.git@v1":       {"git@host:acme/lib.git", "v1", "lib"},
	} {
		repo, ref := SplitRef(spec)
		if got := [3]string{repo, ref, NameOf(repo)}; got != want {
			t.Errorf("SplitRef(%q) = %q, want %q", spec, got, want)
		}
	}
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		".": "/home/ada", "sub/r": "/home/ada/sub/r", "../r": "/home/r", "/abs": "/abs",
		"https://h/r": "https://h/r", "git@h:r.git": "git@h:r.git", "./a:b": "/home/ada/a:b", "": "",
	} {
		if got := Absolute(spec, "/home/ada"); got != want {
			t.Errorf("Absolute(%q) = %q, want %q", spec, got, want)
		}
	}
}

func TestStripCredentials(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://ada:s3cret@h/r.git":    "https://h/r.git",
		"https://tok@h/r?token=s3cret":  "https://h/r",
		"ssh://git:s3cret@h/r":          "ssh://git@h/r",
		"git@h:r.git":                   "git@h:r.git",
		"/a/path":                       "/a/path",
		"file:///srv/r.git":             "file:///srv/r.git",
		"https://ada:s3%zzcret@h/r.git": "https://***@h/r.git",
	} {
		if got := StripCredentials(in); got != want {
			t.Errorf("StripCredentials(%q) = %q, want %q", in, got, want)
		}
	}
}
