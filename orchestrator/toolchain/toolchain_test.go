package toolchain

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// machine is a home directory with what people have in theirs.
func machine(t *testing.T) Machine {
	t.Helper()
	root := t.TempDir()
	m := Machine{Home: filepath.Join(root, "home/ada"), State: filepath.Join(root, "state"), Taken: []string{"/proc", "/etc", filepath.Join(root, "taken")}}
	for _, file := range []string{
		".ssh/id_ed25519", ".cargo/credentials.toml", ".rust2/bin/rustc", ".config/gh/hosts.yml", ".claude/.credentials.json",
		".claude/local/claude", ".config/nvm/versions/node/v22/bin/node", ".local/bin/uv", ".local/share/claude/versions/2", "sdk/go/bin/go",
		".cargo/bin/rustup", ".rustup/toolchains/stable/bin/cargo", ".pyenv/shims/python3", ".pyenv/versions/3.12/bin/python3", "go/bin/gopls",
		".npm-global/lib/node_modules/@openai/codex/codex.js", ".local/lib/node_modules/gem/gem.js", "../../taken/x", "../../state/runs.db", "../../opt/t/run",
	} {
		write(t, filepath.Join(m.Home, file), "x")
	}
	write(t, filepath.Join(m.Home, ".rustup/settings.toml"), "version = \"12\"\ndefault_toolchain = \"stable\"\n")
	write(t, filepath.Join(m.Home, ".pyenv/version"), "2.7 3.12\n")
	for link, target := range map[string]string{
		".local/bin/claude": "../share/claude/versions/2", ".cargo/bin/cargo": "rustup", ".npm-global/bin/codex": "../lib/node_modules/@openai/codex/codex.js",
		".local/bin/gem": "../lib/node_modules/gem/gem.js", "keys": ".ssh", "statelink": "../../state", "dangling": "nowhere",
	} {
		link = filepath.Join(m.Home, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(target, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{".local/bin", ".cargo/bin", ".pyenv/shims", ".config/nvm/versions/node/v22/bin", "sdk/go/bin", "go/bin", ".npm-global/bin"} {
		m.Path += filepath.Join(m.Home, dir) + string(filepath.ListSeparator)
	}
	return m
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	m := machine(t)
	l, err := net.Listen("unix", filepath.Join(m.Home, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, code := range map[string]string{
		"~/.rust2":                     "",
		"~/.rust2/bin/":                "",
		"~/.rust2/../.rust2":           "",
		"~/.cargo/bin":                 "",
		"~/.claude/local":              "",
		"~/.config/nvm/versions/node":  "",
		"~/.local/bin/claude":          "",
		"~/../../opt/t":                "",
		"/usr":                         "",
		"":                             CodeBad,
		"bin":                          CodeBad,
		"./bin":                        CodeBad,
		"~ada/bin":                     CodeBad,
		"/opt/a:b":                     CodeBad,
		"/opt/a\nb":                    CodeBad,
		"~/nowhere":                    CodeMissing,
		"~/dangling":                   CodeMissing,
		"~/s":                          "tool_path_not_plain",
		"/":                            CodeUnsafe,
		"//":                           CodeUnsafe,
		"/var":                         CodeUnsafe,
		"~/":                           CodeUnsafe,
		"~/..":                         CodeUnsafe,
		"~/.ssh":                       CodeUnsafe,
		"~/.ssh/id_ed25519":            CodeUnsafe,
		"~/.config":                    CodeUnsafe,
		"~/.config/gh":                 CodeUnsafe,
		"~/.claude":                    CodeUnsafe,
		"~/.claude/.credentials.json":  CodeUnsafe,
		"~/.cargo":                     CodeUnsafe, // because of its credentials.toml
		"~/.local":                     CodeUnsafe,
		"~/go":                         CodeUnsafe,
		"~/keys":                       CodeUnsafe,
		"~/statelink":                  CodeUnsafe,
		m.State:                        CodeUnsafe,
		m.State + "/runs.db":           CodeUnsafe,
		filepath.Dir(m.State):          CodeUnsafe,
		m.Taken[2]:                     CodeOverlaps,
		m.Taken[2] + "/x":              CodeOverlaps,
		"/etc/passwd":                  CodeOverlaps,
		"/proc/self/root":              CodeOverlaps,
		"/usr/../proc/self/root/etc/x": CodeOverlaps,
	} {
		clean, err := m.Check(path)
		var refused *lattice.Refusal
		switch {
		case code == "" && err != nil:
			t.Errorf("Check(%q) = %v", path, err)
		case code == "" && (!filepath.IsAbs(clean) || clean != filepath.Clean(clean)):
			t.Errorf("Check(%q) = %q", path, clean)
		case code != "" && (!errors.As(err, &refused) || refused.Fault.Code != code):
			t.Errorf("Check(%q) = %v, want %s", path, err, code)
		case code != "" && (refused.Fault.Hint == "" || refused.Fault.Message == ""):
			t.Errorf("Check(%q) = %+v, want a message and a hint", path, refused.Fault)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	m := machine(t)
	for name, want := range map[string]struct {
		show []string
		note string
	}{
		"claude":  {[]string{".local/bin/claude"}, ""},
		"uv":      {[]string{".local/bin/uv"}, ""},
		"cargo":   {[]string{".rustup/toolchains/stable"}, "a shim of rustup"},
		"python3": {[]string{".pyenv/versions/3.12"}, "a shim of pyenv"},
		"node":    {[]string{".config/nvm/versions/node/v22"}, ""},
		"go":      {[]string{"sdk/go"}, ""},
		"gopls":   {[]string{"go/bin/gopls"}, ""},
		"codex":   {[]string{".npm-global"}, ""},
		"gem":     {[]string{".local/bin", ".local/lib/node_modules"}, ""},
	} {
		found := m.Find(name)
		if len(found) != 1 {
			t.Errorf("Find(%s) = %v", name, found)
			continue
		}
		var show []string
		for _, path := range found[0].Show {
			show = append(show, strings.TrimPrefix(path, m.Home+"/"))
		}
		if d := cmp.Diff(want.show, show); d != "" || found[0].Note != want.note || found[0].Seen {
			t.Errorf("Find(%s) = %+v; show (-want +got):\n%s", name, found[0], d)
		}
	}
	if found := m.Find("nothing-of-that-name"); found != nil {
		t.Errorf("Find of nothing = %v", found)
	}
	if d := cmp.Diff([]string{filepath.Join(m.Home, "sdk/go")}, m.Default()); d != "" {
		t.Errorf("Default (-want +got):\n%s", d)
	}
	m.Path = "/usr/bin"
	if found := m.Find("env"); len(found) != 1 || !found[0].Seen || found[0].Show != nil {
		t.Errorf("Find(env) = %+v, want one that sprites see anyway", found)
	}
}

func TestDangling(t *testing.T) {
	t.Parallel()
	m := machine(t)
	bin := filepath.Join(m.Home, ".local/bin")
	want := []string{
		filepath.Join(bin, "claude") + " → " + filepath.Join(m.Home, ".local/share/claude/versions/2"),
		filepath.Join(bin, "gem") + " → " + filepath.Join(m.Home, ".local/lib/node_modules/gem/gem.js"),
	}
	if d := cmp.Diff(want, Dangling([]string{bin})); d != "" {
		t.Errorf("Dangling (-want +got):\n%s", d)
	}
	if got := Dangling([]string{bin, filepath.Join(m.Home, ".local/share/claude"), filepath.Join(m.Home, ".local/lib")}); got != nil {
		t.Errorf("Dangling = %v although all targets are shown", got)
	}
}
