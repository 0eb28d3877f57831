package loop

import "testing"

// TestCommitOfEachTask: the commit of an iteration stays if a task newly passes, and else the next one replaces it. A task that fails
// again is finished by another commit; an iteration that was undone leaves all as it was.
func TestCommitOfEachTask(t *testing.T) {
	list := func(one, two bool) []Task {
		return []Task{{Description: "one", Passes: one}, {Description: "two", Passes: two}}
	}
	m := Memory{}
	for i, c := range []struct {
		name string
		o    Observation
		want string
	}{
		{"a plan", Observation{Commit: "c1", Tasks: list(false, false)}, "c1"},
		{"a task", Observation{Commit: "c2", Tasks: list(true, false), Green: true}, ""},
		{"nothing more", Observation{Commit: "c3", Tasks: list(true, false), Green: true}, "c3"},
		{"an undone task", Observation{Commit: "c4", Tasks: list(true, false), Undone: true}, "c3"},
		{"a crash", Observation{Crash: "gone", Tasks: list(true, false)}, "c3"},
		{"both", Observation{Commit: "c5", Tasks: list(true, true)}, ""},
		{"one fails again", Observation{Commit: "c6", Tasks: list(false, true)}, "c6"},
		{"and passes", Observation{Commit: "c7", Tasks: list(true, true)}, ""},
	} {
		c.o.State.Status = Continue
		if m = Decide(m, c.o, Limits{}); m.Loose != c.want {
			t.Errorf("%d, %s: the loose commit is %q, want %q", i+1, c.name, m.Loose, c.want)
		}
	}
	if !m.Proven {
		t.Error("no iteration counts as green")
	}
}
