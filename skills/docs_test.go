package skills

import (
	"strings"
	"testing"
)

// Documents that name things that the code lost are found with their lines. A change of comments loses nothing, and a name that code
// still uses is not lost.
func TestDocsCheck(t *testing.T) {
	s := newSprite(t)
	commit := func(message string) string {
		s.git("repo", "add", "-A")
		s.git("repo", "commit", "-q", "-m", message)
		return s.git("repo", "rev-parse", "HEAD")
	}
	code := `// "--loud" makes noise
f.Bool("loud", false)
mux.HandleFunc("GET /v1/jobs", list)

f.Bool("kept", false)
`
	s.write("repo/main.go", code)
	s.write("repo/app.toml", "# noise\nlisten = 80\n")
	s.write("repo/README.md", "Use.\n\nSay `--loud` or --kept.\n")
	s.write("repo/docs/api.md", "GET /v1/jobs lists.\nSet `listen`.\nTo listen is nice.\n")
	s.write("repo/CHANGELOG.md", "`--loud` is new.\n")
	s.write("repo/image.png", "\x00\x01")
	s.git("repo", "init", "-q", "-b", "main")
	commit("first")
	s.write("repo/main.go", strings.Replace(code, "makes noise", "makes sounds", 1))
	s.write("repo/image.png", "\x00\x02")
	comments := commit("comments")
	if data := s.must("docs.check", `{}`); data["stale"] != 0.0 || data["report"] != "" {
		t.Errorf("changed comments: %v", data)
	}

	code = strings.NewReplacer(`f.Bool("loud"`, `f.Bool("noisy"`, "/v1/jobs", "/v2/jobs", `f.Bool("kept", false)`, "").Replace(code)
	s.write("repo/main.go", code)
	s.write("repo/other.go", `run("--kept")`)
	s.write("repo/app.toml", "# noise\naddress = 80\n")
	commit("renamed")
	data := s.must("docs.check", `{"base":"`+comments+`"}`)
	want := `- README.md:3 names the flag --loud, which the code no longer has (it was in main.go:2); it may be --noisy now
- docs/api.md:1 names the route /v1/jobs, which the code no longer has (it was in main.go:3); it may be /v2/jobs now
- docs/api.md:2 names the config key listen, which the code no longer has (it was in app.toml:2); it may be address now
`
	for _, line := range strings.SplitAfter(want, "\n") {
		if !strings.Contains(data["report"].(string), line) {
			t.Errorf("the report lacks %q", line)
		}
	}
	if data["stale"] != 3.0 || data["truncated"] != false {
		t.Errorf("%v lines, truncated %v:\n%s", data["stale"], data["truncated"], data["report"])
	}
	s.fails("docs.check", `{"depth":1000}`, 2, "bad_input")
	s.fails("docs.check", `{"base":"nowhere"}`, 3, "ref_not_found")
}
