package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestExplainEveryCode: lattice explain knows every code of docs/errors.md. TestErrorsDocument holds that page to the codes of all
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
	for _, row := range rows {
		out, err := mcpCommand(t, os.Environ(), "explain", row[1], "--json").CombinedOutput()
		var told []struct{ Code, Meaning string }
		if err == nil {
			err = json.Unmarshal(out, &told)
		}
		if err != nil || len(told) != 1 || told[0].Code != row[1] || strings.TrimSpace(told[0].Meaning) == "" {
			t.Errorf("lattice explain %s: %v\n%s", row[1], err, out)
		}
	}
}
