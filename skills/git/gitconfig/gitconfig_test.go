package gitconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files are configurations and what git 2.39 makes of them, "key=value", a key alone for one without "=".
func files() map[string]struct {
	text string
	want []string // nil is refused
} {
	type file = struct {
		text string
		want []string
	}
	return map[string]struct {
		text string
		want []string
	}{
		"empty":                 file{"", []string{}},
		"plain":                 file{"[core]\n\tbare = false\n", []string{"core.bare=false"}},
		"one line":              file{"[core] bare = false", []string{"core.bare=false"}},
		"subsection":            file{"[remote \"Ori.gin\"]\nURL=x\n", []string{"remote.Ori.gin.url=x"}},
		"old subsection":        file{"[Branch.Main]\nmerge=x\n", []string{"branch.main.merge=x"}},
		"escaped subsection":    file{`[filter "a\"b\\c\d"]` + "\nclean=x\n", []string{`filter.a"b\cd.clean=x`}},
		"upper case":            file{"[FILTER \"A\"]\nCLEAN = Sh\n", []string{"filter.A.clean=Sh"}},
		"no value":              file{"[core]\nbare\n", []string{"core.bare"}},
		"empty value":           file{"[core]\nbare=\n", []string{"core.bare="}},
		"comments":              file{"# a\n; b\n[core] # c\nx = y # d\nz = w ; e\n", []string{"core.x=y", "core.z=w"}},
		"quoted comment":        file{"[a]\nx = \"y # z\" ; w\n", []string{"a.x=y # z"}},
		"quotes in parts":       file{"[a]\nx = a\"b c\"d\n", []string{"a.x=ab cd"}},
		"blanks":                file{"[a]\nx =   b  c   \n", []string{"a.x=b  c"}},
		"quoted blanks":         file{"[a]\nx = \"  b  \"\n", []string{"a.x=  b  "}},
		"continued":             file{"[a]\nx = b\\\n  c\n", []string{"a.x=b  c"}},
		"continued key":         file{"[a]\nx\\\n= b\n", nil},
		"hidden by continuing":  file{"[a]\nx = y\\\n[filter \"z\"]\\\nclean = w\n", []string{"a.x=y[filter z]clean = w"}},
		"escapes":               file{`[a]` + "\n" + `x = \t\n\b\\\"` + "\n", []string{"a.x=\t\n\b\\\""}},
		"bad escape":            file{"[a]\nx = \\q\n", nil},
		"open quote":            file{"[a]\nx = \"b\n", nil},
		"CRLF":                  file{"[a]\r\nx = y\r\n", []string{"a.x=y"}},
		"BOM":                   file{"\xef\xbb\xbf[a]\nx=y\n", []string{"a.x=y"}},
		"BOM in the middle":     file{"[a]\n\xef\xbb\xbfx=y\n", nil},
		"open section":          file{"[a\nx=y\n", nil},
		"open subsection":       file{"[a \"b\n\"]\nx=y\n", nil},
		"unquoted subsection":   file{"[a b]\nx=y\n", nil},
		"junk after subsection": file{"[a \"b\" c]\nx=y\n", nil},
		"underscore":            file{"[a]\nx_y=z\n", nil},
		"digit first":           file{"[a]\n1x=z\n", nil},
		"digit in a section":    file{"[a1-b]\nx1-y=z\n", []string{"a1-b.x1-y=z"}},
		"include":               file{"[include]\npath=../evil\n[includeIf \"gitdir:/\"]\npath=x\n", []string{"include.path=../evil", "includeif.gitdir:/.path=x"}},
		"twice":                 file{"[a]\nx=1\n[b]\ny=2\n[a]\nx=3\n", []string{"a.x=1", "b.y=2", "a.x=3"}},
		"no line end":           file{"[a]\nx=1", []string{"a.x=1"}},
		"no section":            file{"x=1\n", nil},
		"NUL":                   file{"[a]\nx=1\x00\n", nil},
		"form feed":             file{"[a]\n\fx=1\n", nil},
		"a key after a section": file{"[a]x=1\n[b] y = 2\n", []string{"a.x=1", "b.y=2"}},
	}
}

func flat(c Config) []string {
	list := []string{}
	for _, e := range c {
		if e.NoValue {
			list = append(list, e.Key)
			continue
		}
		list = append(list, e.Key+"="+e.Value)
	}
	return list
}

func TestParse(t *testing.T) {
	for name, tc := range files() {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.text))
			if tc.want == nil {
				if err == nil {
					t.Errorf("Parse = %q, want a refusal", flat(got))
				}
				return
			}
			if diff := cmp.Diff(tc.want, flat(got)); diff != "" || err != nil {
				t.Errorf("Parse: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// gits are what git itself makes of a file; ok is false where it refuses.
func gits(t testing.TB, text []byte) (list []string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "config", "--file", file, "--no-includes", "-z", "--list")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C"}
	out, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Skipf("no git: %v", err)
	}
	list = []string{}
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if key, value, has := strings.Cut(record, "\n"); has {
			list = append(list, key+"="+value)
		} else if key != "" {
			list = append(list, key)
		}
	}
	return list, err == nil
}

// What is read here is what git reads: where they differ a key could run that nobody saw.
func TestParseAgreesWithGit(t *testing.T) {
	for name, tc := range files() {
		list, ok := gits(t, []byte(tc.text))
		got, err := Parse([]byte(tc.text))
		switch {
		case err != nil && (ok && name != "NUL" && name != "no section"):
			t.Errorf("%s: Parse: %v; git reads %q", name, err, list)
		case err == nil && (!ok || cmp.Diff(list, flat(got)) != ""):
			t.Errorf("%s: Parse = %q; git reads %q, %v", name, flat(got), list, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range files() {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Parse(text)
		if err != nil {
			return // refused, whatever git makes of it
		}
		if list, ok := gits(t, text); !ok || cmp.Diff(list, flat(got)) != "" {
			t.Errorf("Parse(%q) = %q; git reads %q, %v", text, flat(got), list, ok)
		}
	})
}

func TestValues(t *testing.T) {
	c, err := Parse([]byte("[core]\nbare\nfileMode=off\n[remote \"o\"]\nurl=a\nurl=b\nempty=\n[user]\nname=x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := c.Value("Remote", "o", "URL"); v != "b" || !ok {
		t.Errorf("Value = %q, %v, want the last one", v, ok)
	}
	if v, ok := c.Value("remote", "O", "url"); ok {
		t.Errorf("Value of another subsection = %q", v)
	}
	if v := c.Values("remote", "o", "url"); cmp.Diff([]string{"a", "b"}, v) != "" {
		t.Errorf("Values = %q", v)
	}
	if !c.Bool("core", "", "bare", false) || c.Bool("core", "", "filemode", true) || c.Bool("remote", "o", "empty", true) || !c.Bool("no", "", "such", true) {
		t.Error("Bool reads switches wrong")
	}
}

// TestNumbersAreSwitches checks that each number but 0 is true, as for git.
func TestNumbersAreSwitches(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]bool{ // with the fallbacks false and true
		"1": {true, true}, "2": {true, true}, "-1": {true, true}, "010": {true, true}, "0": {}, "00": {}, "-0": {}, "1k": {true, true}, "0k": {}, "0x1": {true, true}, "0x0": {}, "+1": {true, true},
		"x": {false, true}, "1x": {false, true}, "1kk": {false, true}, "08": {false, true},
	} {
		c := Config{{Key: "core.bare", Value: value}}
		if got := [2]bool{c.Bool("core", "", "bare", false), c.Bool("core", "", "bare", true)}; got != want {
			t.Errorf("Bool(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestDangerousKeysAreFound(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"filter.x.clean": true, "filter.x.y.smudge": true, "filter.clean": false, "filter.x.required": false, "diff.external": true, "diff.x.textconv": true,
		"diff.algorithm": false, "include.path": true, "includeif.gitdir:/.path": true, "remote.origin.uploadpack": true, "remote.origin.url": false,
		"merge.x.driver": true, "core.gitproxy": true, "core.bare": false,
		"hook.lint.command": true, "hook.a.b.command": true, "hook..command": true, "hook.lint.event": false,
		"filter..clean": true, "diff..command": true, "includeif..path": true, "remote..uploadpack": true, "filter..required": false,
	} {
		if got := len(Config{{Key: key}}.Dangerous(Executable())) > 0; got != want {
			t.Errorf("%s is dangerous: %v, want %v", key, got, want)
		}
	}
	for key, want := range map[string]bool{
		"http.proxy": true, "http.https://x/.extraheader": true, "url.a.insteadof": true, "credential.https://x.helper": true, "remote.o.pushurl": true, "url..insteadof": true,
		"credential.helper": false, "httpx.y": false, // overridden; no section of git's
	} {
		if got := len(Config{{Key: key}}.Dangerous(Redirecting())) > 0; got != want {
			t.Errorf("%s redirects: %v, want %v", key, got, want)
		}
	}
}
