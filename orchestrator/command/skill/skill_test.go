package skill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// What a skill prints reaches the terminal as plain lines, and the result as the JSON that it is.
func TestCallShowsHostileOutput(t *testing.T) {
	t.Parallel()
	const event = protocol.Prefix + `{"protocol_version":"v1","event_type":"INFO","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-02T03:04:05.000000000Z","payload":{"message":"hi\u001b[2J\u202e"}}`
	for name, c := range map[string]struct {
		stdout string
		exit   int
		want   int
		result string
	}{
		"result":             {"\x1b]0;owned\x07noise\n" + event + "\n" + `{"ok":true,"skill":"a.b","data":{"x":"` + "\u009b\u202e" + `\u001b[31m"}}` + "\n", 0, 0, "\u009b\u202e\x1b[31m"},
		"failure":            {`{"ok":false,"skill":"a.b","error":{"code":"c","message":"m"}}`, 3, 3, ""},
		"ok with exit code":  {`{"ok":true,"skill":"a.b","data":{}}`, 4, 4, ""},
		"failed with exit 0": {`{"ok":false,"skill":"a.b","error":{"code":"c","message":"m"}}`, 0, 1, ""},
		"waiting":            {`{"ok":true,"skill":"a.b","waiting":{"reason":"r","checkpoint_id":"v1"}}`, 75, 75, ""},
		"no result":          {"{\"ok\":true}\n\x1b[0m", 0, 1, ""},
		"nothing":            {"", 9, 9, ""},
		"no program":         {"", 127, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, diagnosis bytes.Buffer
			call := oneCall{console: &cli.Console{Out: &out, Err: &diagnosis}, skill: "a.b"}
			for scanner := protocol.NewScanner(strings.NewReader(c.stdout)); ; {
				rec, err := scanner.Next()
				if err != nil {
					break
				}
				call.record(rec)
			}
			err := call.conclude(c.exit)
			if got := call.console.Report(t.Context(), err); got != c.want {
				t.Errorf("exit code %d (%v), want %d", got, err, c.want)
			}
			for _, text := range []string{out.String(), diagnosis.String()} {
				if i := strings.IndexFunc(text, func(r rune) bool {
					return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
				}); i >= 0 {
					t.Errorf("a control character at %d of %q", i, text)
				}
			}
			if c.result == "" {
				return
			}
			var result struct{ Data struct{ X string } }
			if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Data.X != c.result {
				t.Errorf("printed %s: %v", &out, err)
			}
		})
	}
}

// A sprite that lies about its skills harms nobody: odd names are not looked at, odd manifests are told and left out.
func TestSkillsOfAHostileSprite(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"/skills/good.one/skill.json":            `{"name":"good.one","side_effect":"read"}`,
		"/skills/liar.one/skill.json":            `{"name":"fs.write"}`,
		"/skills/odd.one/skill.json":             `{"name":"odd.one","inputs":7,"description":"` + strings.Repeat("x", 1000) + `"}`,
		"/skills/huge.one/skill.json":            strings.Repeat(" ", maxManifest+1),
		"/skills/manifests/plain.one/skill.json": `{"name":"plain.one"}`,
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		if strings.HasSuffix(r.URL.Path, "/fs/list") {
			var entries []sprites.FileInfo
			for _, name := range []string{"good.one", "liar.one", "odd.one", "huge.one", "plain.one", "gone.one", "fs.read", "../../etc/passwd.x", "\x1b[2J.x", "manifests", ".hidden.x"} {
				entries = append(entries, sprites.FileInfo{Name: name})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"entries": entries})
			return
		}
		asked = append(asked, path)
		if text, ok := files[path]; ok {
			fmt.Fprint(w, text)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"no such file","code":"ENOENT"}`)
	}))
	defer server.Close()
	var warnings []string
	found, err := skillsIn(t.Context(), sprites.New(server.URL, "", server.Client()), "box", func(w string) { warnings = append(warnings, w) })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		got = append(got, fmt.Sprint(s.Name, " ", s.Source, " ", s.cmd))
	}
	want := []string{"fs.read builtin [/skills/fs.read]", "good.one sprite [/skills/good.one/run]", "plain.one sprite [/skills/plain.one]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	if len(warnings) != 4 {
		t.Errorf("%d warnings: %q", len(warnings), warnings)
	}
	for _, path := range asked {
		if strings.Contains(path, "..") || !strings.HasPrefix(path, "/skills/") {
			t.Errorf("asked for %s", path)
		}
	}
	if _, err := dropInSkill(t.Context(), nil, "box", "../x.y"); err == nil {
		t.Errorf("a name that leaves /skills: %v", err)
	}
}
