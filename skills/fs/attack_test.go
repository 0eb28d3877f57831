package fs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Every verb that changes something, aimed at one path.
func changing(path string) map[string]object {
	return map[string]object{
		"fs.write":  {"path": path, "content": "x"},
		"fs.append": {"path": path, "content": "x"},
		"fs.edit":   {"path": path, "edits": []object{{"old": "a", "new": "b"}}},
		"fs.mkdir":  {"path": path},
		"fs.remove": {"path": path, "recursive": true},
		"fs.move":   {"from": "mine", "to": path},
		"fs.copy":   {"from": "mine", "to": path},
		"fs.patch":  {"patch": "--- " + path + "\n+++ " + path + "\n@@ -1 +1 @@\n-a\n+b\n", "strip": 0},
	}
}

// What belongs to the runtime and to git is not changed, by whatever name.
func TestReservedPaths(t *testing.T) {
	for path, code := range map[string]string{
		".lattice":                   "reserved_path",
		".lattice/outbox.jsonl":      "reserved_path",
		".LATTICE/x":                 "reserved_path",
		".Lattice":                   "reserved_path",
		".lattıce/x":                 "reserved_path",
		".lat\u200btice/x":           "reserved_path",
		".lattice./x":                "reserved_path",
		"a/../.lattice/x":            "reserved_path",
		"own/x":                      "reserved_path",
		"r/.git":                     "git_internals",
		"r/.git/config":              "git_internals",
		"r/.git/hooks/pre-commit":    "git_internals",
		"r/.GIT/hooks/pre-commit":    "git_internals",
		"r/.g\u200cit/config":        "git_internals",
		"r/.gıt/config":              "git_internals",
		"r/git~1/config":             "git_internals",
		"r/GIT~1./config":            "git_internals",
		"r/.git::$INDEX_ALLOCATION":  "git_internals",
		"loop/x":                     "unsafe_path",
		"r/loop/x":                   "unsafe_path",
		"r/.git /config":             "git_internals",
		".git":                       "git_internals",
		"r/hooks/pre-commit":         "git_internals",
		"gitdir/x":                   "git_internals",
		"r/sub/.git/modules/x/hooks": "git_internals",
	} {
		s := newSprite(t, "mine", "m", "r/.git/config", "a", "r/.git/hooks/pre-commit", "a", ".lattice/x", "a")
		s.link("own", ".lattice")
		s.link("r/hooks", ".git/hooks")
		s.link("gitdir", "r/.git")
		s.link("loop", "r/loop")
		s.link("r/loop", "../loop")
		before := s.tree()
		for name, input := range changing(path) {
			exit, result := s.call(name, input)
			if result.Error == nil || exit != 7 || result.Error.Code != code || result.Error.Hint == "" {
				t.Errorf("%s of %q = exit %d, %s, want %s", name, path, exit, quote(result), code)
			}
		}
		if got := s.tree(); got != before {
			t.Errorf("%q: the tree is %s, want %s", path, got, before)
		}
	}
	s := newSprite(t, "r/.git/config", "a", "r/x", "x")
	s.fails("fs.move", `{"from":"r/.git","to":"stolen"}`, 7, "git_internals")
	s.fails("fs.copy", `{"from":"r/x","to":"r/.git/x"}`, 7, "git_internals")
	if got := s.must("fs.read", `{"path":"r/.git/config"}`); got["content"] != "a" { // reading is no harm
		t.Errorf("fs.read = %v", got)
	}
	s.must("fs.write", `{"path":".gitignore","content":"x"}`)
	s.must("fs.write", `{"path":".github/x","content":"x"}`)
	s.must("fs.write", `{"path":"sub/.lattice/x","content":"x"}`)
	s.must("fs.remove", `{"path":"r","recursive":true}`) // a whole repository is the caller's
}

// Nothing but regular files is opened, and what leads out is refused, for every verb.
func TestSpecialFilesAndWaysOut(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	prepare := func(t *testing.T) *sprite {
		s := newSprite(t, "mine", "m")
		s.link("out", outside)
		s.link("file", filepath.Join(outside, "secret"))
		s.link("up", "..")
		if err := syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(s.dir, "socket")}), syscall.Close(fd))
		}
		if err != nil {
			t.Logf("without a socket: %v", err) // its path may be too long
		}
		return s
	}
	for _, path := range []string{"out/secret", "out/new", "file", "up/x", "../x", "/etc/x", "pipe", "socket"} {
		s := prepare(t)
		before := s.tree()
		inputs := changing(path)
		if path == "file" || path == "pipe" || path == "socket" {
			delete(inputs, "fs.remove") // the thing itself goes, and nothing is opened
		}
		if strings.HasPrefix(path, "out/") {
			delete(inputs, "fs.patch")
			s.fails("fs.patch", changing(path)["fs.patch"], 7, "unsafe_path")
		}
		inputs["fs.read"], inputs["fs.hash"] = object{"path": path}, object{"path": path}
		inputs["fs.search"] = object{"path": path, "pattern": "a"}
		for name, input := range inputs {
			exit, result := s.call(name, input)
			if result.Error == nil || result.Error.Hint == "" || exit != 7 && result.Error.Code != "exists" && result.Error.Code != "not_a_directory" {
				t.Errorf("%s of %q = exit %d, %s, want a refusal", name, path, exit, quote(result))
			}
		}
		if got := s.tree(); got != before {
			t.Errorf("%q: the tree is %s, want %s", path, got, before)
		}
	}
	s := prepare(t)
	s.must("fs.remove", `{"path":"pipe"}`)
	s.must("fs.remove", `{"path":"out"}`)
	s.fails("fs.copy", `{"from":"socket","to":"x"}`, 7, "unsafe_path")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside lie %v, %v", entries, err)
	}
}

// Somebody swaps files, folders, links that lead out and FIFOs under the names that the verbs work on, all the time.
// Whatever a verb answers, it answers at once, and nothing is read from or written to outside.
func TestSwapsWhileVerbsRun(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "f")
	if err := os.WriteFile(secret, []byte("top secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSprite(t, "d/f", "mine\n", "spare/f", "mine\n", "mine", "m")
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		at := func(name string) string { return filepath.Join(s.dir, name) }
		for i := 0; ctx.Err() == nil; i++ {
			// What fails here fails because a verb was faster.
			switch i % 4 {
			case 0:
				_ = os.Rename(at("d"), at("away"))
				_ = os.Symlink(outside, at("d"))
			case 1:
				_ = os.Remove(at("d"))
				_ = os.Rename(at("away"), at("d"))
			case 2:
				_ = os.RemoveAll(at("d/f"))
				_ = syscall.Mkfifo(at("d/f"), 0o600)
			case 3:
				_ = os.RemoveAll(at("d/f"))
				_ = os.MkdirAll(at("d"), 0o755)
				_ = os.WriteFile(at("d/f"), []byte("mine\n"), 0o644)
			}
		}
	})
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute) // a verb that blocks would hang here
	defer cancel()
	for range 12 {
		for name, input := range map[string]object{
			"fs.read": {"path": "d/f"}, "fs.search": {"pattern": "secret"}, "fs.glob": {"pattern": "**"}, "fs.list": {"recursive": true},
			"fs.hash": {}, "fs.stat": {"path": "d/f", "hash": true}, "fs.write": {"path": "d/f", "content": "changed"}, "fs.append": {"path": "d/f", "content": "changed"},
			"fs.edit":  {"path": "d/f", "edits": []object{{"old": "s", "new": "changed"}}},
			"fs.patch": {"patch": "--- d/f\n+++ d/f\n@@ -1 +1 @@\n-top secret\n+changed\n"},
			"fs.copy":  {"from": "d", "to": "copy", "recursive": true}, "fs.move": {"from": "mine", "to": "d/mine", "overwrite": true}, "fs.mkdir": {"path": "d/new/deep"},
			"fs.remove": {"path": "d/f"},
		} {
			_, result := s.callCtx(deadline, name, input)
			if strings.Contains(string(result.Data), "secret") && name != "fs.glob" {
				t.Fatalf("%s = %s", name, result.Data)
			}
			_ = os.RemoveAll(filepath.Join(s.dir, "copy"))
		}
		s.write("mine", "m")
	}
	if deadline.Err() != nil {
		t.Error("a verb blocked")
	}
	entries, err := os.ReadDir(outside)
	data, rerr := os.ReadFile(secret)
	if err != nil || rerr != nil || len(entries) != 1 || string(data) != "top secret\n" {
		t.Errorf("outside lie %v, %v, with %q, %v", entries, err, data, rerr)
	}
}
