package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFillers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now map[string]uint64
		want        []string
	}{
		{nil, nil, nil},
		{nil, map[string]uint64{"a": 5, "b": 3}, []string{"a"}},
		{map[string]uint64{"a": 5, "b": 3}, map[string]uint64{"a": 6, "b": 9}, []string{"b"}},
		{map[string]uint64{"a": 5}, map[string]uint64{"a": 2, "b": 1}, []string{"b"}}, // a was started anew
		{map[string]uint64{"a": 5, "b": 5}, map[string]uint64{"a": 5, "b": 5}, []string{"a", "b"}},
	} {
		if diff := cmp.Diff(c.want, findFillers(c.before, c.now)); diff != "" {
			t.Errorf("fillers(%v, %v): %s", c.before, c.now, diff)
		}
	}
}
