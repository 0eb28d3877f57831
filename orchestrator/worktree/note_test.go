package worktree

import (
	"strings"
	"testing"
)

// TestPushNote: a push takes a line for the notes along, once, and keeps the notes of others. Notes that move meanwhile are read again.
// A remote that refuses notes gets no branch.
func TestPushNote(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	w.in("origin.git", "notes", "--ref=lattice", "add", "-m", "of others", "main")
	base, head, bundle := w.sprite(url, "fix")
	p, err := w.git.Inspect(t.Context(), Request{Repo: url, Run: "r1", Bundle: bundle, Branch: "fix", Base: base, Head: head})
	if err != nil {
		t.Fatal(err)
	}
	p.Note = `{"statement":1}`

	w.hook("origin.git/hooks/update", `case $1 in refs/notes/*) echo no notes; exit 1 ;; esac`)
	_, err = w.git.Push(t.Context(), p)
	wantCode(t, err, "rejected_by_remote")
	if _, err := w.try("origin.git", "rev-parse", "--verify", "refs/heads/fix"); err == nil {
		t.Error("the branch was pushed without its note")
	}

	// Another push of notes comes first, when this one begins to write.
	w.hook("origin.git/hooks/update", `case $1 in refs/notes/*) test -e raced || { : >raced; unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
git notes --ref=lattice append -m 'of a third' main; } ;; esac`)
	for _, status := range []PushStatus{Pushed, AlreadyThere} {
		if got, err := w.git.Push(t.Context(), p); err != nil || got.Status != status {
			t.Fatalf("Push = %+v, %v, want %s", got, err, status)
		}
	}
	p.Note = `{"statement":2}`
	if _, err := w.git.Push(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[string]string{head: "{\"statement\":1}\n{\"statement\":2}", base: "of others\n\nof a third"} {
		if got := w.in("origin.git", "notes", "--ref=lattice", "show", rev); got != want {
			t.Errorf("the note about %s is %q, want %q", rev, got, want)
		}
	}
	if n := strings.Count(strings.Join(w.received(), "\n"), "refs/notes/lattice"); n != 2 {
		t.Errorf("the remote got notes %d times, want 2", n)
	}

	n, err := w.git.Note(t.Context(), w.path("origin.git"), "fix")
	if err != nil || n.Commit != head || n.Tree != w.in("origin.git", "rev-parse", "fix^{tree}") || len(n.Lines) != 2 {
		t.Errorf("Note = %+v, %v", n, err)
	}
	_, err = w.git.Note(t.Context(), w.path("origin.git"), "none")
	wantCode(t, err, "ref_not_found")
}
