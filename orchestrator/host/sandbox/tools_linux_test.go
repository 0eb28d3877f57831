package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// toolbox makes a folder with a program that a box can be shown: not below a folder that boxes have for themselves. Its
// modes would let anybody write.
func toolbox(t *testing.T) string {
	t.Helper()
	parent, err := os.Getwd()
	must(t, err)
	if own(parent) { // a checkout below /tmp, say
		parent, err = os.UserCacheDir()
		must(t, err)
		must(t, os.MkdirAll(parent, 0o700))
	}
	if own(parent) {
		t.Skipf("neither this package nor %s lies where a box can be shown it", parent)
	}
	dir, err := os.MkdirTemp(parent, "tools-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o777))
	must(t, os.WriteFile(filepath.Join(dir, "bin", "greet"), []byte("#!/bin/sh\necho hello from $0\n"), 0o777))
	for _, path := range []string{dir, filepath.Join(dir, "bin"), filepath.Join(dir, "bin", "greet")} {
		must(t, os.Chmod(path, 0o777))
	}
	return dir
}

// own reports whether path lies in a folder that boxes have for themselves.
func own(path string) bool {
	return slices.ContainsFunc(spec.OwnFolders(), func(own string) bool { return strings.HasPrefix(path+"/", own+"/") })
}

func startWith(t *testing.T, tools ...string) *sandbox.Box {
	t.Helper()
	cfg, err := config(t.TempDir(), false)
	must(t, err)
	cfg.Tools = tools
	box, err := sandbox.Start(cfg)
	var refusal *spec.Refusal
	if errors.As(err, &refusal) {
		t.Skipf("no namespaces here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, box.Stop()) })
	return box
}

func TestConfiguredTools(t *testing.T) {
	dir := toolbox(t)
	greet := filepath.Join(dir, "bin", "greet")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("bin/greet", link))
	for name, c := range map[string]struct {
		tools   []string
		program string
	}{
		"prefix":                  {[]string{dir}, "greet"},
		"bin folder":              {[]string{filepath.Join(dir, "bin")}, "greet"},
		"one file":                {[]string{greet}, "greet"},
		"one file by a link":      {[]string{link}, "link"},
		"twice, inner one first":  {[]string{filepath.Join(dir, "bin"), dir, dir}, "greet"},
		"together with system's":  {[]string{"/usr/bin", "/bin/sh", dir}, "greet"},
		"a system folder by link": {[]string{"/bin", "/lib", dir}, "greet"},
	} {
		t.Run(name, func(t *testing.T) {
			box := startWith(t, c.tools...)
			if out, code := run(t, box, c.program); code != 0 || !strings.HasPrefix(out, "hello from "+dir) {
				t.Errorf("%s = %q, %d", c.program, out, code)
			}
			if out, code := run(t, box, "true && ls / >/dev/null"); code != 0 {
				t.Errorf("the system's programs: %q, %d", out, code)
			}
		})
	}
}

// What runs in a box cannot change a tool, although the tool's modes allow it and, with an ordinary user's host, both are
// the same user.
func TestToolsCannotBeChanged(t *testing.T) {
	dir := toolbox(t)
	greet := filepath.Join(dir, "bin", "greet")
	before, err := os.ReadFile(greet)
	must(t, err)
	box := startWith(t, dir)
	single := startWith(t, greet)
	for _, box := range []*sandbox.Box{box, single} {
		for name, script := range map[string]string{
			"append":             "echo evil >>" + greet,
			"truncate":           ": >" + greet,
			"replace":            "echo evil >/tmp/x && mv -f /tmp/x " + greet,
			"copy over":          "cp -f /bin/sh " + greet,
			"remove":             "rm -f " + greet,
			"rename":             "mv " + greet + " " + greet + ".old",
			"change the mode":    "chmod 000 " + greet,
			"touch":              "touch -d 2001-01-01 " + greet,
			"link to it":         "ln " + greet + " /tmp/greet",
			"through /proc":      "exec 3<" + greet + "; echo evil >/proc/self/fd/3",
			"remount":            "mount -o remount,rw " + dir,
			"unmount":            "umount -l " + dir,
			"mount over":         "mount --bind /tmp " + dir,
			"an attribute":       "setfattr -n user.x -v y " + greet,
			"see its neighbours": "ls " + filepath.Dir(dir) + " | grep -v tools-",
		} {
			if out, code := run(t, box, "("+script+") 2>&1"); code == 0 {
				t.Errorf("%s succeeds: %s", name, out)
			}
		}
	}
	// Where a folder around the tool is the sprite's own, which depends on its level, what it adds there stays with it.
	for _, box := range []*sandbox.Box{box, single} {
		run(t, box, "echo evil >"+filepath.Dir(dir)+"/evil; echo evil >"+filepath.Join(dir, "bin", "evil"))
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "evil")); err == nil {
		t.Error("a sprite wrote into the folder around a tool")
	}
	after, err := os.ReadFile(greet)
	must(t, err)
	if string(after) != string(before) {
		t.Errorf("the tool is now %q", after)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "bin")); err != nil || len(entries) != 1 {
		t.Errorf("the tool's folder holds %v, %v", entries, err)
	}
}

// A shown module cache serves the modules that are in it, from the folder that a go command downloaded them to.
func TestModuleCacheAsTool(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Skip("no Go toolchain")
	}
	download := filepath.Join(strings.TrimSpace(string(out)), "cache", "download")
	modules, err := filepath.Glob(filepath.Join(download, "golang.org", "x", "sys", "@v", "*.zip"))
	if err != nil || len(modules) == 0 {
		t.Skipf("no module in %s", download)
	}
	if own(download) {
		t.Skipf("the module cache %s lies in a folder that boxes have for themselves", download)
	}
	tools := []string{download}
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil && !strings.HasPrefix(string(root), "/usr/") {
		tools = append(tools, strings.TrimSpace(string(root)))
	}
	version := strings.TrimSuffix(filepath.Base(modules[0]), ".zip")
	box := startWith(t, tools...)
	// Without the network's proxies behind it, so that nothing else can have served it.
	text, code := run(t, box, "cd /workspace && export GOPROXY=${GOPROXY%%,*} GONOSUMDB=* && go mod download -json golang.org/x/sys@"+version)
	if code != 0 || !strings.Contains(text, `"Version": "`+version+`"`) {
		t.Errorf("download of a module from the shown cache = %s, %d", text, code)
	}
}

func TestToolsOverOwnFoldersAreRefused(t *testing.T) {
	cfg, err := config(t.TempDir(), false)
	must(t, err)
	for _, tool := range append(spec.OwnFolders(), "/", "relative", "", cfg.Root.Dir, filepath.Dir(cfg.Root.Dir), "/home", "/var", "/tmp/x", "/run/docker.sock") {
		cfg.Tools = []string{tool}
		if box, err := sandbox.Start(cfg); err == nil {
			t.Errorf("a box starts that shows %q", tool)
			must(t, box.Stop())
		}
	}
}
