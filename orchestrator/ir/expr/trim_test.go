package expr

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// TestTrims: a trim has the path of what was shortened, which ends where names are too long.
func TestTrims(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 5000)
	before := map[string]any{"a/b": []any{"xy", "z"}, long: []any{"xy", []any{"xy"}}, "list": []any{"1", "2"}}
	after := map[string]any{"a/b": []any{"x", "z"}, long: []any{"x", []any{"x"}}, "list": []any{"1"}}
	var got []string
	for _, trim := range Trims("/in", before, after) {
		got = append(got, trim.Path+" "+trim.Unit)
	}
	cut := "/in/" + long[:finding.MaxPointer]
	want := []string{"/in/a~1b/0 chars", "/in/list items", cut + " chars", cut + " chars"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("Trims = %.200q, want %.200q", got, want)
	}
}
