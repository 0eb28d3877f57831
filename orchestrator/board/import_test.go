package board

import (
	"strings"
	"testing"
)

// A draft is refused before any task is created, and its id depends on document and key alone.
func TestCheckDrafts(t *testing.T) {
	config := Config{DefaultStatus: "backlog", TaskTypes: []string{"task"}}
	config.Workflow.Statuses = []string{"backlog", "done"}
	good := Draft{Key: "a", Title: "A", Epic: "e"}
	for want, all := range map[string]Drafts{
		"":                   {"d", []Draft{good, {Key: "b", Title: "A"}}},
		"name no document":   {"", []Draft{good}},
		"there are 0 drafts": {"d", nil},
		"draft 2 has the":    {"d", []Draft{good, good}},
		"draft 1 has the":    {"d", []Draft{{Title: "A"}}},
		"needs a title":      {"d", []Draft{good, {Key: "b"}}},
		"is not a word":      {"d", []Draft{{Key: "a", Title: "A", Epic: "two words"}}},
		"not one of task":    {"d", []Draft{{Key: "a", Title: "A", Type: "wish"}}},
	} {
		if err := config.checkDrafts(all); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	for title, want := range map[string]int{"A": 0, " A ": 0, "A\n": 0, "A b": 1} {
		if changes := (Draft{Key: "a", Title: title}).changesFor(&Task{Title: "A", Status: "backlog"}); len(changes) != want {
			t.Errorf("the title %q changes %v", title, changes)
		}
	}
	renamed := good
	renamed.Title = "B"
	if good.idIn("d") != renamed.idIn("d") || good.idIn("d") == good.idIn("e") {
		t.Error("the id does not follow document and key")
	}
	for status, want := range map[string]int{"backlog": 1, "done": 0, Cancelled: 0} {
		if changes := renamed.changesFor(&Task{Title: "A", Status: status}); len(changes) != want {
			t.Errorf("%s: %v", status, changes)
		}
	}
}
