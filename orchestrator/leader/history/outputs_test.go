package history

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// notices counts the writes of which watchers are told.
type notices int

func (n *notices) Notify(string) { *n++ }

// A log that cannot be written is no reason to fail the call that prints.
func TestRunLogDrops(t *testing.T) {
	var told notices
	o := &Outputs{Home: home.Home(t.TempDir()), Watchers: &told}
	log := o.Open("run_a", "n")
	if err := os.RemoveAll(o.Home.Run("run_a")); err != nil {
		t.Fatal(err)
	}
	if n, err := log.Write([]byte("lost\n")); n != 5 || err != nil || told != 0 {
		t.Errorf("Write = %d, %v, %d notices", n, err, told)
	}
}

// TestNodeLogs: each node's output is found again, whichever nodes write in turn, and after a crash between the two files.
func TestNodeLogs(t *testing.T) {
	var told notices
	o := &Outputs{Home: home.Home(t.TempDir()), Watchers: &told}
	a, b, none := o.Open("run_a", "a"), o.Open("run_a", "b"), o.Open("run_a", "")
	for _, w := range []struct {
		to   io.Writer
		text string
	}{{a, "a1 "}, {a, "a2 "}, {b, "b1 "}, {none, "x "}, {a, "a3 "}, {o.Open("run_a", "a"), "a4 "}, {b, "b2 "}} {
		if _, err := io.WriteString(w.to, w.text); err != nil {
			t.Fatal(err)
		}
	}
	// A leader that crashed before it wrote the output leaves a line about a byte that the next writer takes, and half a line.
	if err := appendOwner(o.ownersPath("run_a"), owner{20, "crashed"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(o.ownersPath("run_a"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"at":2` + "\n")
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o.Open("run_a", "a"), "a5"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		nodes  []string
		offset int64
		want   string
	}{
		{[]string{"a"}, 0, "a1 a2 a3 a4 a5"}, {[]string{"a"}, 4, "2 a3 a4 a5"}, {[]string{"a"}, 7, "3 a4 a5"}, {[]string{"a"}, 100, ""},
		{[]string{"b"}, 0, "b1 b2 "}, {[]string{"b"}, 3, "b2 "}, {[]string{"a", "b"}, 0, "a1 a2 b1 a3 a4 b2 a5"}, {[]string{"crashed"}, 0, ""},
	} {
		log, err := os.Open(filepath.Join(o.Home.Run("run_a"), "output.log"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := o.openNodes(log, "run_a", tt.nodes, tt.offset)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || string(text) != tt.want {
			t.Errorf("log of %v from byte %d: %q, %v, want %q", tt.nodes, tt.offset, text, err, tt.want)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if told != 8 {
		t.Errorf("watchers were told of %d writes, want 8", told)
	}
	if parts := partsOf([]owner{{0, "a"}, {5, "b"}, {9, "a"}}, []string{"a"}, 7); !slices.Equal(parts, []part{{0, 5}}) {
		t.Errorf("parts of a log that is shorter than its owners say: %v", parts)
	}
}
