package dashboard

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestRoutes: each page and form stands for an operation that exists, and a form for one that changes something.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, r := range New(nil).allRoutes() {
		method, path, _ := strings.Cut(r.operation, " ")
		op, ok := route.Find(api.Routes(nil), method, api.Root+path)
		if !ok || strings.HasPrefix(r.pattern, "POST ") != (op.Method == "POST") {
			t.Errorf("%s stands for %q", r.pattern, r.operation)
		}
	}
}

// TestWeight: the page of a run with 10,000 things of each kind, and all that it loads, take less than 100 kB when compressed. The
// terminal is loaded on demand.
func TestWeight(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := fs.WalkDir(files, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(name, "assets/terminal/") { // loaded on demand
			return err
		}
		data, err := fs.ReadFile(files, name)
		_, _ = w.Write(data)
		return err
	})
	if err != nil || w.Flush() != nil || packed.Len() > 40<<10 || packed.Len() < 5<<10 {
		t.Errorf("the assets take %d bytes: %v", packed.Len(), err)
	}
	text := get(t, &crowd{size: 10_000}, "/runs/run_1")
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil || packed.Len() > 100_000 || len(text) < 10_000 {
		t.Errorf("the page of %d bytes and its assets take %d: %v", len(text), packed.Len(), err)
	}
}

// TestFields: a form has a field for each input that a question expects, and none where a yes or no is enough.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w    lattice.Wait
		want string
	}{
		{lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"approved": "boolean", "comments": "string"}}, ""},
		{lattice.Wait{Kind: lattice.WaitAction, Action: &lattice.Action{}}, ""},
		{lattice.Wait{Kind: lattice.WaitHuman, Expected: map[string]string{"n": "integer", "size": "number", "files": "array<string>", "ok": "boolean", "why": "string"}, Optional: []string{"why"}},
			"files:lines n:number ok:select(yes,no) size:number why?:lines"},
		{lattice.Wait{Kind: lattice.WaitUnknown, Expected: map[string]string{"outcome": "string", "comments": "string"}, Choices: []string{"done", "retry"}}, "comments:lines outcome:select(done,retry)"},
	} {
		var got []string
		for _, f := range makeFields(tt.w) {
			text := f.Name
			if f.Optional {
				text += "?"
			}
			text += ":" + f.Kind
			if len(f.Choices) > 0 {
				text += "(" + strings.Join(f.Choices, ",") + ")"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("the fields of %+v are %q, want %q", tt.w, got, tt.want)
		}
	}
}

// TestDigest: a question that differs in anything has another digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	w := lattice.Wait{ID: "w", Prompt: "push?", Action: &lattice.Action{Binding: []byte(`{"head":"a"}`)}}
	same, other := w, w
	other.Action = &lattice.Action{Binding: []byte(`{"head":"b"}`)}
	if digestOf(w) != digestOf(same) || digestOf(w) == digestOf(other) {
		t.Error("the digest does not tell questions apart")
	}
}

// TestPatch: lines of a change have a class, and no character that turns the order of text around.
func TestPatch(t *testing.T) {
	t.Parallel()
	got := colourLines("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\x1b[31m\u202e\n same\n")
	want := []coloured{{"file", "diff --git a/x b/x"}, {"meta", "--- a/x"}, {"meta", "+++ b/x"}, {"hunk", "@@ -1 +1 @@"}, {"minus", "-old"}, {"plus", "+new[31m"}, {"", " same"}}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
}
