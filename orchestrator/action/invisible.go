package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/text"
)

// invisible collects the places of a request that hold invisible characters: text that a person does not see and a program
// reads, or that a person reads in another order.
type invisible struct {
	places     []string
	characters []string // of all places, each once
}

// lookIn notes a place if its text holds invisible characters, and reports whether it does.
func (v *invisible) lookIn(place, s string) bool {
	found := text.Invisible(s)
	for _, c := range found {
		if !slices.Contains(v.characters, c) {
			v.characters = append(v.characters, c)
		}
	}
	if len(found) > 0 && !slices.Contains(v.places, place) {
		v.places = append(v.places, place)
	}
	return len(found) > 0
}

// lookInParameters is lookIn for each parameter of an action.
func (v *invisible) lookInParameters(parameters json.RawMessage) {
	all := Values(parameters)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, s := range all[name] {
			v.lookIn("the parameter "+name, s)
		}
	}
}

// lookInName is lookIn for the name of a file.
func (v *invisible) lookInName(path string) bool {
	return v.lookIn("the name "+worktree.DisplayName(path), path)
}

// lookInAdded is lookIn for lines of a file. A mark of the byte order begins a file and is not one of them.
func (v *invisible) lookInAdded(a worktree.Added) {
	if text.Invisible(string(a.Text)) == nil {
		return
	}
	n := 0
	for line := range strings.Lines(string(a.Text)) {
		n++
		if a.Line(n) == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		v.lookIn(fmt.Sprintf("%s:%d", worktree.DisplayName(a.Path), a.Line(n)), line)
	}
}

// warnings returns the warning about the places, none if there are none.
func (v *invisible) warnings() []string {
	n := len(v.places)
	if n == 0 {
		return nil
	}
	more := ""
	if n > maxHits {
		more = fmt.Sprintf(", and %d more", n-maxHits)
	}
	return []string{fmt.Sprintf("invisible characters (%s) in %s%s", strings.Join(v.characters[:min(len(v.characters), maxHits)], " "), strings.Join(v.places[:min(n, maxHits)], ", "), more)}
}

// bindWarnings binds warnings about an action that has no other binding.
func bindWarnings(warnings []string) (json.RawMessage, error) {
	if len(warnings) == 0 {
		return nil, nil
	}
	return json.Marshal(struct {
		Warnings []string `json:"warnings"`
	}{warnings})
}
