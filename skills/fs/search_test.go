package fs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// project is a small tree with everything that a walk has to judge.
func project(t testing.TB) *sprite {
	s := newSprite(t,
		"r/.git/HEAD", "needle\n", "r/.git/info/exclude", "/excluded\n", "r/.gitignore", "*.log\nbuild/\n!keep.log\n",
		"r/a.go", "package a\n\nfunc needle() {}\n", "r/b.log", "needle\n", "r/keep.log", "needle\n", "r/excluded", "needle\n",
		"r/build/x.go", "needle\n", "r/sub/c.go", "one\nneedle needle\nthree\nNeedle\nneedles\n", "r/sub/.hidden.go", "needle\n", "r/sub/.gitignore", "d.ts\n",
		"r/sub/d.ts", "needle\n", "r/sub/e.ts", "needle", "r/bin", "x\x00needle\n", "top.txt", "needle\r\nx\r\n", ".lattice/needle", "needle\n",
	)
	s.link("r/link.go", "a.go")
	s.link("r/linkdir", "sub")
	s.link("r/out", "/etc")
	s.link("r/loop", "..")
	if err := syscall.Mkfifo(filepath.Join(s.dir, "r/pipe.go"), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGlob(t *testing.T) {
	s := project(t)
	for _, tc := range []struct{ input, want string }{
		{`{"pattern":"**/*.go"}`, "r/a.go r/sub/.hidden.go r/sub/c.go"},
		{`{"pattern":"**/*.go","hidden":false}`, "r/a.go r/sub/c.go"},
		{`{"pattern":"**/*.go","ignored":true}`, "r/a.go r/build/x.go r/sub/.hidden.go r/sub/c.go"},
		{`{"pattern":"**/*.go","type":"any"}`, "r/a.go r/link.go r/pipe.go r/sub/.hidden.go r/sub/c.go"},
		{`{"pattern":"**/*.{go,ts}","path":"r/sub"}`, "r/sub/.hidden.go r/sub/c.go r/sub/e.ts"},
		{`{"pattern":"*.go","path":"r"}`, "r/a.go"},
		{`{"pattern":"./*.go","path":"r"}`, "r/a.go"},
		{`{"pattern":"r/sub/*.ts"}`, "r/sub/e.ts"},
		{`{"pattern":"r/sub/c.go"}`, "r/sub/c.go"},
		{`{"pattern":"r/nope/**"}`, ""},
		{`{"pattern":"**/*.log"}`, "r/keep.log"},
		{`{"pattern":"**","type":"dir"}`, "r r/sub"},
		{`{"pattern":"**","type":"symlink"}`, "r/link.go r/linkdir r/loop r/out"},
		{`{"pattern":"**/*.go","exclude":["sub"]}`, "r/a.go"},
		{`{"pattern":"**/*.go","exclude":["r/sub/c.*"]}`, "r/a.go r/sub/.hidden.go"},
		{`{"pattern":"**/*.go","exclude":["./r/sub/c.*"]}`, "r/a.go r/sub/.hidden.go"},
		{`{"pattern":"build/*","path":"r","ignored":true}`, "r/build/x.go"},
		{`{"pattern":"*","path":"r/build"}`, "r/build/x.go"}, // asked for by name
		{`{"pattern":"**/needle"}`, ""},                      // .lattice is never shown
		{`{"pattern":"**/HEAD","ignored":true}`, ""},         // nor .git
		{`{"pattern":"r/linkdir/*"}`, ""},                    // nor what a link leads to
	} {
		if got := strings.Join(strs(s.must("fs.glob", tc.input)["paths"]), " "); got != tc.want {
			t.Errorf("fs.glob %s = %s, want %s", tc.input, got, tc.want)
		}
	}
	got := s.must("fs.glob", `{"pattern":"**/*.go","limit":2}`)
	if strings.Join(strs(got["paths"]), " ") != "r/a.go r/sub/.hidden.go" || got["truncated"] != true {
		t.Errorf("fs.glob of the first two = %v", got)
	}
	for _, bad := range []string{`{"pattern":"[a"}`, `{"pattern":""}`, `{"pattern":"/etc/*"}`, `{"pattern":"../*"}`, `{"pattern":"a/../../*"}`, `{"pattern":"*","type":"pipe"}`,
		`{"pattern":"*","limit":99999}`, `{"pattern":"*","exclude":["["]}`, `{"pattern":"{{{{{{{{{a}}}}}}}}}"}`} {
		s.fails("fs.glob", bad, 2, "bad_input")
	}
	s.fails("fs.glob", `{"pattern":"*","path":"top.txt"}`, 1, "not_a_directory")
	s.fails("fs.glob", `{"pattern":"*","path":"nope"}`, 3, "not_found")
	s.fails("fs.glob", `{"pattern":"*","path":"r/out"}`, 7, "unsafe_path")
}

// TestGlobInOddFolders checks that a pattern finds files in folders with special characters in their names, and only there.
func TestGlobInOddFolders(t *testing.T) {
	names := []string{"ab", `a\b`, "a[b]", "a*b", "a?b", "a{b", `a\\b`, `a\*b`, "a b", "a'b"}
	var files []string
	for _, name := range names {
		files = append(files, "d/"+name+"/f.go", "in")
	}
	s := newSprite(t, files...)
	quote := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "?", `\?`, "{", `\{`)
	for _, name := range names {
		for _, pattern := range []string{"d/" + quote.Replace(name) + "/*.go", "d/" + quote.Replace(name) + "/f.go", `\d/` + quote.Replace(name) + "/**"} {
			input, err := json.Marshal(object{"pattern": pattern})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strs(s.must("fs.glob", string(input))["paths"]), " "); got != "d/"+name+"/f.go" {
				t.Errorf("fs.glob %s = %q, want d/%s/f.go", input, got, name)
			}
		}
		input, err := json.Marshal(object{"pattern": "*.go", "path": "d/" + name})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strs(s.must("fs.glob", string(input))["paths"]), " "); got != "d/"+name+"/f.go" {
			t.Errorf("fs.glob %s = %q, want d/%s/f.go", input, got, name)
		}
	}
}

// brief is what a search found: "path:line:column:text" each.
func brief(data object) string {
	var all []string
	list, _ := data["matches"].([]any)
	for _, e := range list {
		m := e.(object)
		all = append(all, fmt.Sprintf("%s:%v:%v:%v", m["path"], m["line"], m["column"], m["text"]))
	}
	return strings.Join(all, "|")
}

func TestSearch(t *testing.T) {
	s := project(t)
	const a, c, c5, e = "r/a.go:3:6:func needle() {}", "r/sub/c.go:2:1:needle needle", "r/sub/c.go:5:1:needles", "r/sub/e.ts:1:1:needle"
	const hidden, keep, top = "r/sub/.hidden.go:1:1:needle", "r/keep.log:1:1:needle", "top.txt:1:1:needle"
	list := func(all ...string) string { return strings.Join(all, "|") }
	for _, tc := range []struct{ input, want string }{
		{`{"pattern":"needle"}`, list(a, keep, hidden, c, c5, e, top)},
		{`{"pattern":"needle","hidden":false,"path":"r/sub"}`, list(c, c5, e)},
		{`{"pattern":"needle","word":true,"path":"r/sub/c.go"}`, list(c)},
		{`{"pattern":"needle","word":true,"path":"r/sub/c.go","ignore_case":true}`, list(c, "r/sub/c.go:4:1:Needle")},
		{`{"pattern":"needle$","regexp":true}`, list(keep, hidden, "r/sub/c.go:2:8:needle needle", e, top)},
		{`{"pattern":"^n\\w+e$","regexp":true,"include":["*.ts","top*"]}`, list(e, top)},
		{`{"pattern":"needle","include":["r/sub/**"]}`, list(hidden, c, c5, e)},
		{`{"pattern":"needle","include":["./r/sub/**"]}`, list(hidden, c, c5, e)},
		{`{"pattern":"needle","exclude":["sub","*.log"]}`, list(a, top)},
		{`{"pattern":"needle","exclude":["./r/**"]}`, list(top)},
		{`{"pattern":"needle","include":["./*"]}`, list(top)},
		{`{"pattern":"needle","include":["*.log"],"ignored":true}`, list("r/b.log:1:1:needle", keep)},
		{`{"pattern":"needle","path":"r/build"}`, "r/build/x.go:1:1:needle"},
		{`{"pattern":"needle","path":"r/b.log"}`, "r/b.log:1:1:needle"},
		{`{"pattern":"needle","path":".lattice/needle"}`, ".lattice/needle:1:1:needle"},
		{`{"pattern":"needle","include":["bin"]}`, ""},
		{`{"pattern":"needle","include":["bin"],"binary":true}`, "r/bin:1:3:x\x00needle"},
		{`{"pattern":"func needle()"}`, "r/a.go:3:1:func needle() {}"},
		{`{"pattern":"needle","max_per_file":1,"path":"r/sub/c.go"}`, c},
	} {
		if got := brief(s.must("fs.search", tc.input)); got != tc.want {
			t.Errorf("fs.search %s = %s, want %s", tc.input, got, tc.want)
		}
	}
	got := s.must("fs.search", `{"pattern":"Needle","context":2,"path":"r/sub"}`)
	m := got["matches"].([]any)[0].(object)
	if quote(m["before"]) != `["needle needle","three"]` || quote(m["after"]) != `["needles"]` || m["offset"] != 24.0 || got["searched"] != 4.0 {
		t.Errorf("fs.search with context = %v", got)
	}
	got = s.must("fs.search", `{"pattern":"needle","mode":"files"}`)
	if g := strings.Join(strs(got["files"]), " "); g != "r/a.go r/keep.log r/sub/.hidden.go r/sub/c.go r/sub/e.ts top.txt" || got["count"] != 6.0 || got["binary"] != 1.0 {
		t.Errorf("fs.search for files = %v", got)
	}
	got = s.must("fs.search", `{"pattern":"needle","mode":"count","path":"r"}`)
	if g := quote(got["counts"]); !strings.Contains(g, `{"count":2,"path":"r/sub/c.go"}`) || got["count"] != 6.0 {
		t.Errorf("fs.search for counts = %v", got)
	}
	got = s.must("fs.search", `{"pattern":"needle","max_results":4}`)
	if brief(got) != list(a, keep, hidden, c) || got["truncated"] != true {
		t.Errorf("fs.search for the first = %v", got)
	}
	for _, bad := range []string{`{"pattern":""}`, `{"pattern":"(","regexp":true}`, `{"pattern":"(?=x)","regexp":true}`, `{"pattern":"a\nb"}`, `{"pattern":"x","mode":"lines"}`, `{"pattern":"x","context":21}`,
		`{"pattern":"x","max_results":-1}`, `{"pattern":"x","max_results":20000,"context":20}`, `{"pattern":"x","include":["["]}`, `{"pattern":"x","max_per_file":-1}`, `{"pattern":"x","max_line_bytes":-1}`} {
		s.fails("fs.search", bad, 2, "bad_input")
	}
	s.fails("fs.search", `{"pattern":"x","path":"r/pipe.go"}`, 7, "unsafe_path")
	s.fails("fs.search", `{"pattern":"x","path":"r/out/passwd"}`, 7, "unsafe_path")
	s.fails("fs.search", `{"pattern":"x","path":"r/nope"}`, 3, "not_found")
}

// A tree of very many files is walked in bounded memory, and its first results are always the same.
func TestSearchOfVeryManyFiles(t *testing.T) {
	s := newSprite(t)
	const folders, each = 50, 100
	for i := range folders {
		dir := filepath.Join(s.dir, fmt.Sprintf("d%03d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range each {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d", j)), []byte("a needle\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		got := s.must("fs.search", `{"pattern":"needle","max_results":250,"mode":"files"}`)
		files := strs(got["files"])
		if len(files) != 250 || files[0] != "d000/f00" || files[249] != "d002/f49" || !slices.IsSorted(files) || got["truncated"] != true {
			t.Errorf("%d files, %v, truncated %v", len(files), files, got["truncated"])
		}
	}
	if got := s.must("fs.glob", `{"pattern":"**","limit":3}`); quote(got["paths"]) != `["d000/f00","d000/f01","d000/f02"]` {
		t.Errorf("fs.glob = %v", got)
	}
	if got := s.must("fs.search", `{"pattern":"needle","mode":"count","max_results":20000}`); got["count"] != 5000.0 || got["searched"] != 5000.0 {
		t.Errorf("fs.search counts %v in %v", got["count"], got["searched"])
	}
	if got := s.must("fs.hash", `{}`); got["files"] != 5000.0 {
		t.Errorf("fs.hash = %v", got)
	}
	s.fails("fs.remove", `{"path":"d000","recursive":true,"max_entries":99}`, 9, "too_many")
}

// What was asked for is there, also when it is nothing.
func TestSearchWithoutMatches(t *testing.T) {
	s := newSprite(t, "a", "x\n")
	for mode, want := range map[string]string{
		"content": `{"matches":[]}`, "files": `{"files":[]}`, "count": `{"counts":[]}`,
	} {
		got := s.must("fs.search", object{"pattern": "needle", "mode": mode})
		lists := object{}
		for _, name := range []string{"matches", "files", "counts"} {
			if list, ok := got[name]; ok {
				lists[name] = list
			}
		}
		if quote(lists) != want {
			t.Errorf("%s: %s, want %s", mode, quote(lists), want)
		}
	}
}
