package loop

import (
	"testing"

	"github.com/spritekit/lattice/spritekit/loop"
)

// TestCommitMessage: the message names each task that the commit finishes.
func TestCommitMessage(t *testing.T) {
	tasks := []loop.Task{{Description: "a", Passes: true}, {Description: "b\x00", Passes: true}, {Description: "c"}, {Description: "\x00", Passes: true}}
	for _, c := range []struct {
		finished []string
		summary  string
		want     string
	}{
		{nil, "both", "a\n\nboth\n\nFinishes as well:\n- b"},
		{[]string{"a"}, "did b", "b\n\ndid b"},
		{[]string{"a", "b\x00"}, "looked\naround", "looked\n\nlooked\naround"},
		{[]string{"a", "b\x00"}, "", "Work on the tasks"},
		{[]string{"a", "b\x00"}, "\x00", "Work on the tasks"},
		{[]string{"a", "b\x00"}, "\x1b[1mdone\x1b[0m\x00", "done"},
	} {
		if got := commitMessage(c.finished, tasks, loop.State{Summary: c.summary}); got != c.want {
			t.Errorf("%v: %q, want %q", c.finished, got, c.want)
		}
	}
}
