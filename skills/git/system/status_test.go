package system

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Ids of the recordings, which git 2.39 made.
const (
	noID = "0000000000000000000000000000000000000000"
	idA  = "587be6b4c3f93f93c489c0111bba5596147a26cb"
	idB  = "28ce6a8b26aa170e1de65536fe8abe1832bd3242"
	idC  = "13e7564ea0c889e81bcba6f8e496b2a74cdb32fa"
)

// recorded is what -z prints.
func recorded(lines ...string) []byte { return []byte(strings.Join(lines, "\x00") + "\x00") }

// parseStatus reads a whole output.
func parseStatus(out []byte, isWorkspace bool) (engine.Status, error) {
	p := statusParser{name: "repo"}
	if isWorkspace {
		p.name = "."
	}
	lines := &gitcmd.Records{End: 0, Each: p.record}
	_, _ = lines.Write(out) // never fails
	if err := lines.Finish(nil); err != nil {
		return engine.Status{}, err
	}
	return p.finish("")
}

func statusRecordings() map[string][]byte {
	return map[string][]byte{
		"no commits yet": recorded("# branch.oid (initial)", "# branch.head main",
			"1 A. N... 000000 100644 100644 "+noID+" "+idA+" a", "? b"),
		"clean and ahead": recorded("# branch.oid "+idA, "# branch.head main", "# branch.upstream origin/main", "# branch.ab +3 -1"),
		"detached":        recorded("# branch.oid "+idA, "# branch.head (detached)"),
		"ignored":         recorded("# branch.oid "+idA, "# branch.head main", "! x.o"),
		"rename": recorded("# branch.oid "+idA, "# branch.head main",
			"1 .M N... 120000 120000 120000 "+idA+" "+idA+" link",
			"2 R. N... 100644 100644 100644 "+idB+" "+idB+" R100 new  name ", "old name"),
		"deleted and there again": recorded("# branch.oid "+idA, "# branch.head main",
			"1 D. N... 100644 000000 000000 "+idB+" "+noID+" old", "1 .A N... 000000 000000 100644 "+noID+" "+noID+" new", "? old"),
		"conflict": recorded("# branch.oid "+idA, "# branch.head main",
			"u UU N... 100644 100644 100644 100644 "+idA+" "+idB+" "+idC+" a name",
			"u UD N... 100644 100644 000000 100644 "+idA+" "+idB+" "+noID+" gone",
			"u UU N... 120000 120000 120000 120000 "+idA+" "+idB+" "+idC+" link"),
		"submodule": recorded("# branch.oid "+idA, "# branch.head main", "1 .M SC.U 160000 160000 160000 "+idA+" "+idA+" sub"),
		"odd names": recorded("# branch.oid "+idA, "# branch.head main",
			"?  lead", `? "q"`, "? -f with space", "? bad\xff", "? d/", "? new\nline", "? tab\there", "? ünï"),
		"the runtime's folder":          recorded("# branch.oid "+idA, "# branch.head main", "? .lattice-notes", "? .lattice/"),
		"files of the runtime's folder": recorded("# branch.oid "+idA, "# branch.head main", "? .lattice-notes", "? .lattice/o", "? d/.lattice/o"),
	}
}

func TestStatusIsParsed(t *testing.T) {
	t.Parallel()
	onMain := func(counts engine.StatusCounts, entries ...engine.StatusEntry) engine.Status {
		return engine.Status{Branch: "main", Head: idA, State: "dirty", Counts: counts, Entries: entries}
	}
	untracked := func(name string) engine.StatusEntry {
		return engine.StatusEntry{Path: name, Index: "?", Worktree: "?", Type: "file"}
	}
	want := map[string]engine.Status{
		"no commits yet": {Branch: "main", State: "dirty", Counts: engine.StatusCounts{Staged: 1, Untracked: 1},
			Entries: []engine.StatusEntry{{Path: "a", Index: "A", Worktree: ".", Type: "file"}, untracked("b")}},
		"clean and ahead": {Branch: "main", Head: idA, Upstream: "origin/main", Ahead: 3, Behind: 1, State: "clean", Clean: true, Entries: []engine.StatusEntry{}},
		"detached":        {Head: idA, Detached: true, State: "clean", Clean: true, Entries: []engine.StatusEntry{}},
		"ignored": {Branch: "main", Head: idA, State: "clean", Clean: true, Counts: engine.StatusCounts{Ignored: 1},
			Entries: []engine.StatusEntry{{Path: "x.o", Index: "!", Worktree: "!", Type: "file"}}},
		"rename": onMain(engine.StatusCounts{Staged: 1, Changed: 1},
			engine.StatusEntry{Path: "link", Index: ".", Worktree: "M", Type: "symlink"},
			engine.StatusEntry{Path: "new  name ", OrigPath: "old name", Index: "R", Worktree: ".", Type: "file"}),
		"deleted and there again": onMain(engine.StatusCounts{Staged: 1, Changed: 1, Untracked: 1},
			engine.StatusEntry{Path: "new", Index: ".", Worktree: "A", Type: "file"},
			engine.StatusEntry{Path: "old", Index: "D", Worktree: ".", Type: "file"}, untracked("old")),
		"conflict": onMain(engine.StatusCounts{Conflicting: 3},
			engine.StatusEntry{Path: "a name", Index: "U", Worktree: "U", Type: "file", Conflict: "UU"},
			engine.StatusEntry{Path: "gone", Index: "U", Worktree: "D", Type: "file", Conflict: "UD"},
			engine.StatusEntry{Path: "link", Index: "U", Worktree: "U", Type: "symlink", Conflict: "UU"}),
		"submodule": onMain(engine.StatusCounts{Changed: 1}, engine.StatusEntry{Path: "sub", Index: ".", Worktree: "M", Type: "submodule"}),
		"odd names": onMain(engine.StatusCounts{Untracked: 8}, untracked(" lead"), untracked(`"q"`), untracked("-f with space"), untracked("bad\xff"),
			untracked("d/"), untracked("new\nline"), untracked("tab\there"), untracked("ünï")),
		"the runtime's folder":          onMain(engine.StatusCounts{Untracked: 1}, untracked(".lattice-notes")),
		"files of the runtime's folder": onMain(engine.StatusCounts{Untracked: 2}, untracked(".lattice-notes"), untracked("d/.lattice/o")),
	}
	for name, out := range statusRecordings() {
		t.Run(name, func(t *testing.T) {
			got, err := parseStatus(out, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("parseStatus (-want +got):\n%s", diff)
			}
		})
	}
	elsewhere, err := parseStatus(statusRecordings()["the runtime's folder"], false)
	if err != nil || elsewhere.Counts.Untracked != 2 {
		t.Errorf("parseStatus of a repository below the workspace = %+v, %v, want .lattice/ as any other folder", elsewhere, err)
	}
}

func TestTornStatusIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string][]byte{
		"changed, short":       recorded("1 .M N... 100644 100644 100644 " + idA + " " + idA),
		"changed, no path":     recorded("1 .M N... 100644 100644 100644 " + idA + " " + idA + " "),
		"changed, bad letters": recorded("1 M N... 100644 100644 100644 " + idA + " " + idA + " a"),
		"rename, short":        recorded("2 R. N... 100644 100644 100644 "+idB+" "+idB+" new", "old"),
		"rename, no origin":    recorded("2 R. N... 100644 100644 100644 " + idB + " " + idB + " R100 new"),
		"rename, empty origin": recorded("2 R. N... 100644 100644 100644 "+idB+" "+idB+" R100 new", "", "? x"),
		"conflict, short":      recorded("u UU N... 100644 100644 100644 100644 " + idA + " " + idB + " a"),
		"untracked, no path":   recorded("? "),
		"kind alone":           recorded("1"),
	}
	for name, out := range tests {
		if got, err := parseStatus(out, false); err == nil {
			t.Errorf("%s: parseStatus = %+v, want an error", name, got)
		}
	}
}

func FuzzStatus(f *testing.F) {
	for _, out := range statusRecordings() {
		f.Add(out, true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, out []byte, workspace bool) {
		got, err := parseStatus(out, workspace)
		if err != nil {
			return
		}
		for _, e := range got.Entries {
			if e.Path == "" || e.Index == "" || e.Worktree == "" {
				t.Errorf("parseStatus(%q) has the entry %+v", out, e)
			}
		}
	})
}
