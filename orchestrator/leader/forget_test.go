package leader_test

import (
	"fmt"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

const packs = `{"execir_version":"1.0","id":"packs","tools":[],"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"a":1}}],"edges":[]}`

// TestEndedRunsAreForgotten holds that a leader keeps few of the runs that have ended in memory, and all of those that have
// not; those that it let go are shown, cancelled and gone back in as before.
func TestEndedRunsAreForgotten(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	waits := start(t, l, ask, "")
	if v := watch(t, l, waits, ""); v.Status != lattice.Waiting {
		t.Fatalf("%s is %s, want waiting", waits, v.Status)
	}
	var ids []string
	for range 2*leader.KeepLoaded + 5 {
		id := start(t, l, packs, "")
		if v := watch(t, l, id, ""); v.Status != lattice.Succeeded {
			t.Fatalf("%s is %s: %+v", id, v.Status, v.Error)
		}
		ids = append(ids, id)
	}
	if err := l.Quiesce(); err != nil { // the last drives have ended behind it
		t.Fatal(err)
	}
	if n := l.Loaded(); n > leader.KeepLoaded+1 {
		t.Errorf("%d runs are in memory, want the one that waits and %d", n, leader.KeepLoaded)
	}
	if v, err := l.Run(t.Context(), ids[0]); err != nil || v.Status != lattice.Succeeded || v.Steps != 1 {
		t.Errorf("a run that was let go is shown as %+v, %v", v, err)
	}
}

// TestListsOfRuns holds that lists are bounded and go on where another one ended, and that open ones are found however many
// others there are.
func TestListsOfRuns(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	waits := start(t, l, ask, "")
	watch(t, l, waits, "")
	var ids []string
	for range 7 {
		id := start(t, l, packs, "")
		watch(t, l, id, "")
		ids = append([]string{id}, ids...)
	}
	list := func(which api.RunList) (ids []string) {
		t.Helper()
		views, err := l.Runs(t.Context(), which)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			ids = append(ids, v.RunID)
		}
		return ids
	}
	for what, c := range map[string]struct{ got, want []string }{
		"all":       {list(api.RunList{}), append(ids[:7:7], waits)},
		"the first": {list(api.RunList{Limit: 3}), ids[:3]},
		"the next":  {list(api.RunList{Limit: 3, Before: ids[2]}), ids[3:6]},
		"the last":  {list(api.RunList{Limit: 3, Before: ids[5]}), append(ids[6:7:7], waits)},
		"open":      {list(api.RunList{Open: true}), []string{waits}},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if _, err := l.Cancel(t.Context(), waits, "p"); err != nil {
		t.Fatal(err)
	}
	if open := list(api.RunList{Open: true}); len(open) > 0 {
		t.Errorf("open runs behind the end of all: %v", open)
	}
}
