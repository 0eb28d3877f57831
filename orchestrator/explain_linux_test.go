package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExplainEveryCode checks that lattice explain knows every code of docs/errors.md. TestErrorsDocument holds that page to the codes of all
// errors of the commands, the skills and the interface.
func TestExplainEveryCode(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([0-9, ]+) \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 250 {
		t.Fatalf("docs/errors.md lists %d codes", len(rows))
	}
	args := []string{"explain", "--json"}
	for _, row := range rows {
		args = append(args, row[1])
	}
	out, err := mcpCommand(t, os.Environ(), args...).Output()
	var told []struct{ Code, Meaning string }
	if err == nil {
		err = json.Unmarshal(out, &told)
	}
	if err != nil || len(told) != len(rows) {
		t.Fatalf("lattice explain tells of %d codes, want %d: %v", len(told), len(rows), err)
	}
	for i, row := range rows {
		if told[i].Code != row[1] || strings.TrimSpace(told[i].Meaning) == "" {
			t.Errorf("lattice explain %s tells %+v", row[1], told[i])
		}
	}
}
