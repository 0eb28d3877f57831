package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreWrittenReadAndListed(t *testing.T) {
	s := newSprite(t)
	data := s.must("fs.write", `{"path":"a/b.txt","content":"one\ntwo\nthree\n"}`)
	if data["created"] != true || data["mode"] != "0644" || s.read("a/b.txt") != "one\ntwo\nthree\n" {
		t.Errorf("fs.write = %v", data)
	}
	sum := data["sha256"].(string)
	tests := map[string]string{
		`{"path":"a/b.txt"}`:                                "one\ntwo\nthree\n",
		`{"path":"` + s.dir + `/a/b.txt"}`:                  "one\ntwo\nthree\n",
		`{"path":"a/b.txt","offset":4,"length":3}`:          "two",
		`{"path":"a/b.txt","offset":99}`:                    "",
		`{"path":"a/b.txt","offset":8,"length":99}`:         "three\n",
		`{"path":"a/b.txt","start_line":2}`:                 "two\nthree\n",
		`{"path":"a/b.txt","start_line":2,"end_line":2}`:    "two\n",
		`{"path":"a/b.txt","end_line":1}`:                   "one\n",
		`{"path":"a/b.txt","length":3,"encoding":"base64"}`: "b25l",
	}
	for input, want := range tests {
		got := s.must("fs.read", input)
		if got["content"] != want || got["sha256"] != sum || got["size"] != 14.0 {
			t.Errorf("fs.read %s = %v, want content %q", input, got, want)
		}
	}
	data = s.must("fs.write", `{"path":"a/b.txt","content":"AP8=","encoding":"base64","expect_sha256":"`+sum+`","mode":"0755"}`)
	if data["created"] != false || data["mode"] != "0755" || s.read("a/b.txt") != "\x00\xff" {
		t.Errorf("fs.write = %v", data)
	}
	if err := os.Symlink("b.txt", filepath.Join(s.dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	list := s.must("fs.list", `{"recursive":true}`)
	var names []string
	for _, e := range list["entries"].([]any) {
		names = append(names, e.(map[string]any)["path"].(string)+":"+e.(map[string]any)["type"].(string))
	}
	if got := strings.Join(names, " "); got != "a:dir a/b.txt:file a/link:symlink" {
		t.Errorf("fs.list = %s", got)
	}
	if list = s.must("fs.list", `{"recursive":true,"max_entries":2}`); list["truncated"] != true || list["count"] != 2.0 {
		t.Errorf("fs.list = %v, want it truncated", list)
	}
}

func TestFilesAreRefused(t *testing.T) {
	s := newSprite(t)
	s.write("binary", "\xff\xfe")
	s.write("big", strings.Repeat("x", 100))
	for link, target := range map[string]string{"out": "/etc", "own": ".lattice"} {
		if err := os.Symlink(target, filepath.Join(s.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		skill, input string
		exit         int
		code         string
	}{
		{"fs.read", `{"path":"nope"}`, 3, "not_found"},
		{"fs.read", `{"path":"../x"}`, 7, "unsafe_path"},
		{"fs.read", `{"path":"/etc/passwd"}`, 7, "unsafe_path"},
		{"fs.read", `{"path":"out/passwd"}`, 7, "unsafe_path"},
		{"fs.read", `{"path":"binary"}`, 1, "not_utf8"},
		{"fs.read", `{"path":"big","max_bytes":10}`, 9, "too_large"},
		{"fs.read", `{"path":"big","encoding":"utf16"}`, 2, "bad_input"},
		{"fs.read", `{"path":"big","start_line":2,"offset":1}`, 2, "bad_input"},
		{"fs.read", `{"path":"big","typo":1}`, 2, "bad_input"},
		{"fs.write", `{"path":".lattice/outbox.jsonl","content":""}`, 7, "reserved_path"},
		{"fs.write", `{"path":"own/x","content":""}`, 7, "reserved_path"},
		{"fs.write", `{"path":"out/x","content":""}`, 7, "unsafe_path"},
		{"fs.write", `{"path":"x","content":"%","encoding":"base64"}`, 2, "bad_input"},
		{"fs.write", `{"path":"x","content":"","mode":"9"}`, 2, "bad_input"},
		{"fs.write", `{"path":"big","content":"","expect_sha256":"absent"}`, 1, "changed"},
		{"fs.write", `{"path":"new/x","content":"","create_dirs":false}`, 3, "not_found"},
		{"fs.list", `{"path":"big"}`, 1, "not_a_directory"},
		{"fs.list", `{"path":"nope"}`, 3, "not_found"},
		{"fs.read", `{"path":"."}`, 1, "is_directory"},
		{"fs.write", `{"path":".","content":""}`, 1, "is_directory"},
	}
	for _, test := range tests {
		s.fails(test.skill, test.input, test.exit, test.code)
	}
}

func TestRefusalsNameARemedy(t *testing.T) {
	s := newSprite(t)
	s.write("docs/README.md", "x")
	s.write("docs/main.go", "x")
	s.write("docs/binary", "\xff")
	tests := []struct {
		skill, input string
		exit         int
		code, hint   string
	}{
		{"fs.read", `{"path":"docs/readme.md"}`, 3, "not_found", "docs/README.md"},
		{"fs.read", `{"path":"docs/README.txt"}`, 3, "not_found", "docs/README.md"},
		{"fs.read", `{"path":"docs/mian.go"}`, 3, "not_found", "docs/main.go"},
		{"fs.read", `{"path":"docs/other.c"}`, 3, "not_found", "fs.list"},
		{"fs.read", `{"path":"no/such"}`, 3, "not_found", "fs.list"},
		{"fs.read", `{"path":"docs"}`, 1, "is_directory", "fs.list"},
		{"fs.read", `{"path":"docs/binary"}`, 1, "not_utf8", "base64"},
		{"fs.list", `{"path":"doc"}`, 3, "not_found", "docs"},
		{"fs.list", `{"path":"docs/main.go"}`, 1, "not_a_directory", "fs.read"},
		{"test.run", `{"cwd":"docs"}`, 8, "unknown_framework", "command"},
	}
	for _, test := range tests {
		if fault := s.fails(test.skill, test.input, test.exit, test.code); !strings.Contains(fault.Hint, test.hint) {
			t.Errorf("%s %s hints %q, want it to name %s", test.skill, test.input, fault.Hint, test.hint)
		}
	}
}
