package fs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestReadInParts(t *testing.T) {
	s := newSprite(t, "a", "one\ntwo\nthree", "umlauts", "ääää", "empty", "")
	for _, tc := range []struct {
		input string
		want  object
	}{
		{`{"path":"a","max_bytes":5,"truncate":true}`, object{"content": "one\nt", "truncated": true, "sha256": sum("one\ntwo\nthree")}},
		{`{"path":"a","max_bytes":13,"truncate":true}`, object{"content": "one\ntwo\nthree", "truncated": false}},
		{`{"path":"umlauts","max_bytes":5,"truncate":true}`, object{"content": "ää", "length": 4.0, "truncated": true}},
		{`{"path":"a","start_line":2,"end_line":2}`, object{"content": "two\n", "total_lines": 3.0, "offset": 4.0}},
		{`{"path":"a","start_line":9}`, object{"content": "", "total_lines": 3.0}},
		{`{"path":"empty","start_line":1}`, object{"content": "", "total_lines": nil}},
	} {
		got := s.must("fs.read", tc.input)
		for k, v := range tc.want {
			if got[k] != v {
				t.Errorf("fs.read %s has %s %v, want %v", tc.input, k, got[k], v)
			}
		}
	}
	s.fails("fs.read", `{"path":"a","max_bytes":5}`, 9, "too_large")
}

func TestAppend(t *testing.T) {
	s := newSprite(t, "log", "one\n")
	got := s.must("fs.append", `{"path":"log","content":"two\n"}`)
	if s.read("log") != "one\ntwo\n" || got["offset"] != 4.0 || got["size"] != 8.0 || got["created"] != false || got["sha256"] != sum("one\ntwo\n") {
		t.Errorf("fs.append = %v, %q", got, s.read("log"))
	}
	got = s.must("fs.append", `{"path":"new/log","content":"AP8=","encoding":"base64","mode":"0600"}`)
	if s.read("new/log") != "\x00\xff" || got["created"] != true || got["mode"] != "0600" {
		t.Errorf("fs.append = %v", got)
	}
	s.must("fs.append", object{"path": "log", "content": "!", "expect_sha256": sum("one\ntwo\n")})
	s.fails("fs.append", object{"path": "log", "content": "!", "expect_sha256": sum("one\ntwo\n")}, 1, "changed")
	s.fails("fs.append", object{"path": "log", "content": "!", "expect_sha256": "absent"}, 1, "changed")
	s.fails("fs.append", object{"path": "log", "content": "!", "expect_sha256": "ABC"}, 2, "bad_input")
	s.fails("fs.append", `{"path":"no/log","content":"x","create_dirs":false}`, 3, "not_found")
	if err := os.Link(filepath.Join(s.dir, "log"), filepath.Join(s.dir, "other")); err != nil {
		t.Fatal(err)
	}
	s.fails("fs.append", `{"path":"log","content":"x"}`, 7, "hard_link")
}

func TestAppendsAtOnceTearNothing(t *testing.T) {
	s := newSprite(t)
	var group sync.WaitGroup
	line := strings.Repeat("x", 5000) + "\n"
	for range 4 {
		group.Go(func() {
			for range 5 {
				if exit, _ := s.call("fs.append", object{"path": "log", "content": line}); exit != 0 {
					t.Errorf("exit %d", exit)
				}
			}
		})
	}
	group.Wait()
	if s.read("log") != strings.Repeat(line, 20) {
		t.Error("the lines are torn")
	}
}

func TestStat(t *testing.T) {
	s := newSprite(t, "a", "text")
	s.link("l", "a")
	if err := syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]object{
		`{"path":"a"}`:                          {"exists": true, "type": "file", "size": 4.0, "mode": "0644", "links": 1.0, "sha256": nil},
		`{"path":"a","hash":true}`:              {"sha256": sum("text")},
		`{"path":"l"}`:                          {"type": "symlink", "target": "a"},
		`{"path":"l","follow":true}`:            {"type": "file", "size": 4.0},
		`{"path":"."}`:                          {"type": "dir"},
		`{"path":"pipe","hash":true}`:           {"type": "fifo", "sha256": nil},
		`{"path":"none","missing_ok":true}`:     {"exists": false},
		`{"path":"a/below","missing_ok":true}`:  {"exists": false},
		`{"path":".lattice","missing_ok":true}`: {"exists": true},
	} {
		got := s.must("fs.stat", input)
		for k, v := range want {
			if got[k] != v {
				t.Errorf("fs.stat %s has %s %v, want %v", input, k, got[k], v)
			}
		}
	}
	s.fails("fs.stat", `{"path":"none"}`, 3, "not_found")
}

// A change is all that a case looks at: the tree before, one call, the tree after.
func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		name, skill, input string
		exit               int
		code               string
		want               string // of the tree; "" for as it was
	}{
		{"mkdir", "fs.mkdir", `{"path":"x/y"}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 d/l->e l->a x/ x/y/"},
		{"mkdir again", "fs.mkdir", `{"path":"d"}`, 0, "", ""},
		{"mkdir, not again", "fs.mkdir", `{"path":"d","exist_ok":false}`, 1, "exists", ""},
		{"mkdir over a file", "fs.mkdir", `{"path":"a"}`, 1, "exists", ""},
		{"mkdir without parents", "fs.mkdir", `{"path":"x/y","parents":false}`, 3, "not_found", ""},
		{"mkdir in a file", "fs.mkdir", `{"path":"a/x"}`, 1, "exists", ""},
		{"mkdir far below a file", "fs.mkdir", `{"path":"a/x/y"}`, 3, "not_found", ""},
		{"mkdir of the workspace", "fs.mkdir", `{"path":"."}`, 2, "bad_input", ""},
		{"move", "fs.move", `{"from":"a","to":"n/c"}`, 0, "", "b=2 d/ d/e/ d/e/f=3 d/l->e l->a n/ n/c=1"},
		{"move a folder", "fs.move", `{"from":"d","to":"n"}`, 0, "", "a=1 b=2 l->a n/ n/e/ n/e/f=3 n/l->e"},
		{"move a link", "fs.move", `{"from":"l","to":"m"}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 d/l->e m->a"},
		{"move over a file", "fs.move", `{"from":"a","to":"b"}`, 1, "exists", ""},
		{"move over a file, as asked", "fs.move", `{"from":"a","to":"b","overwrite":true}`, 0, "", "b=1 d/ d/e/ d/e/f=3 d/l->e l->a"},
		{"move over a folder", "fs.move", `{"from":"a","to":"d","overwrite":true}`, 1, "exists", ""},
		{"move a folder over a file", "fs.move", `{"from":"d","to":"a","overwrite":true}`, 1, "exists", ""},
		{"move over a link", "fs.move", `{"from":"b","to":"l","overwrite":true}`, 1, "exists", ""},
		{"move into itself", "fs.move", `{"from":"d","to":"d/e/x"}`, 2, "bad_input", ""},
		{"move onto itself", "fs.move", `{"from":"a","to":"./a"}`, 2, "bad_input", ""},
		{"move what is not there", "fs.move", `{"from":"x","to":"y"}`, 3, "not_found", ""},
		{"move out", "fs.move", `{"from":"a","to":"../y"}`, 7, "unsafe_path", ""},
		{"move as expected", "fs.move", `{"from":"a","to":"c","expect_sha256":"` + sum("1") + `"}`, 0, "", "b=2 c=1 d/ d/e/ d/e/f=3 d/l->e l->a"},
		{"move not as expected", "fs.move", `{"from":"a","to":"c","expect_sha256":"` + sum("2") + `"}`, 1, "changed", ""},
		{"move a folder as expected", "fs.move", `{"from":"d","to":"c","expect_sha256":"` + sum("2") + `"}`, 2, "bad_input", ""},
		{"copy", "fs.copy", `{"from":"a","to":"n/c"}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 d/l->e l->a n/ n/c=1"},
		{"copy a folder", "fs.copy", `{"from":"d","to":"n","recursive":true}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 d/l->e l->a n/ n/e/ n/e/f=3 n/l->e"},
		{"copy a folder, not recursive", "fs.copy", `{"from":"d","to":"n"}`, 1, "is_directory", ""},
		{"copy too many", "fs.copy", `{"from":"d","to":"n","recursive":true,"max_entries":3}`, 9, "too_many", ""},
		{"copy too much", "fs.copy", `{"from":"a","to":"n","max_bytes":-1}`, 2, "bad_input", ""},
		{"copy the workspace", "fs.copy", `{"from":".","to":"n","recursive":true}`, 2, "bad_input", ""},
		{"copy into itself", "fs.copy", `{"from":"d","to":"d/x","recursive":true}`, 2, "bad_input", ""},
		{"copy over a file", "fs.copy", `{"from":"a","to":"b"}`, 1, "exists", ""},
		{"copy over a file, as asked", "fs.copy", `{"from":"a","to":"b","overwrite":true}`, 0, "", "a=1 b=1 d/ d/e/ d/e/f=3 d/l->e l->a"},
		{"copy a link", "fs.copy", `{"from":"l","to":"m"}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 d/l->e l->a m->a"},
		{"remove", "fs.remove", `{"path":"a"}`, 0, "", "b=2 d/ d/e/ d/e/f=3 d/l->e l->a"},
		{"remove a link", "fs.remove", `{"path":"d/l","recursive":true}`, 0, "", "a=1 b=2 d/ d/e/ d/e/f=3 l->a"},
		{"remove a folder", "fs.remove", `{"path":"d"}`, 1, "not_empty", ""},
		{"remove a folder, as asked", "fs.remove", `{"path":"d","recursive":true}`, 0, "", "a=1 b=2 l->a"},
		{"remove too many", "fs.remove", `{"path":"d","recursive":true,"max_entries":2}`, 9, "too_many", ""},
		{"remove what is not there", "fs.remove", `{"path":"x"}`, 3, "not_found", ""},
		{"remove what may be there", "fs.remove", `{"path":"x","missing_ok":true}`, 0, "", ""},
		{"remove the workspace", "fs.remove", `{"path":".","recursive":true}`, 2, "bad_input", ""},
		{"remove as expected", "fs.remove", `{"path":"a","expect_sha256":"` + sum("2") + `"}`, 1, "changed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSprite(t, "a", "1", "b", "2", "d/e/f", "3")
			s.link("l", "a")
			s.link("d/l", "e")
			before := s.tree()
			if tc.exit == 0 {
				s.must(tc.skill, tc.input)
			} else {
				s.fails(tc.skill, tc.input, tc.exit, tc.code)
			}
			want := tc.want
			if want == "" {
				want = before
			}
			if got := s.tree(); got != want {
				t.Errorf("the tree is %s, want %s", got, want)
			}
			if left, err := os.ReadDir(filepath.Join(s.dir, ".lattice/tmp")); err == nil && len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestHash(t *testing.T) {
	s := newSprite(t, "d/a", "text\n", "d/run", "x", "d/sub/c", "c", "d/x.log", "1", "d/.gitignore", "*.log\n")
	s.link("d/l", "a")
	if err := os.Chmod(filepath.Join(s.dir, "d/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := s.must("fs.hash", `{"path":"d/a"}`); got["digest"] != sum("text\n") || got["type"] != "file" {
		t.Errorf("fs.hash = %v", got)
	}
	want := sum("100644 " + sum("*.log\n") + " .gitignore\x00100644 " + sum("text\n") + " a\x00120000 " + sum("a") + " l\x00100755 " + sum("x") + " run\x00100644 " + sum("c") + " sub/c\x00")
	got := s.must("fs.hash", `{"path":"d","entries":true}`)
	if got["digest"] != want || got["files"] != 5.0 || len(got["entries"].([]any)) != 5 {
		t.Errorf("fs.hash = %v, want %s", got, want)
	}
	if with := s.must("fs.hash", `{"path":"d","ignored":true}`); with["digest"] == want || with["files"] != 6.0 {
		t.Errorf("fs.hash with ignored files = %v", with)
	}
	if without := s.must("fs.hash", `{"path":"d","exclude":["sub","l"]}`); without["files"] != 3.0 {
		t.Errorf("fs.hash without sub and l = %v", without)
	}
	s.fails("fs.hash", `{"path":"d","max_entries":4}`, 9, "too_many")
	s.fails("fs.hash", `{"path":"d","algorithm":"md5"}`, 2, "bad_input")
	s.must("fs.hash", `{"path":"d","max_entries":5}`)
	if git, err := exec.LookPath("git"); err == nil {
		cmd := exec.Command(git, "hash-object", "d/a")
		cmd.Dir = s.dir
		out, err := cmd.Output()
		if got := s.must("fs.hash", `{"path":"d/a","algorithm":"git"}`); err != nil || got["digest"] != strings.TrimSpace(string(out)) {
			t.Errorf("fs.hash = %v, git says %s, %v", got, out, err)
		}
	}
}
