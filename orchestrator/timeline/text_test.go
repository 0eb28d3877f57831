package timeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/worktree"
)

// What a person is asked to approve says how much it leaves out, and ends with all warnings.
func TestBindingLines(t *testing.T) {
	t.Parallel()
	p := worktree.Push{Branch: "fix", Warnings: []string{"changes programs that the code host or its CI runs: " + strings.Repeat("x", 400) + "/end.yml"}}
	for n := range 30 {
		p.Files = append(p.Files, worktree.File{Path: fmt.Sprintf("f%d", n), Status: "A", Additions: -1})
		p.Commits = append(p.Commits, worktree.Commit{Subject: fmt.Sprintf("c%d", n)})
	}
	p.FilesTotal, p.CommitsTotal = 300, 40
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	lines := DescribeBinding(raw)
	all := strings.Join(lines, "\n")
	for _, want := range []string{"… and 280 more files", "… and 20 more commits", "A f0 binary"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "careful: ") || !strings.HasSuffix(last, "/end.yml") {
		t.Errorf("the last line is %q", last)
	}
}
