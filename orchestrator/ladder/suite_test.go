package ladder

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// TestJSONSchemaSuite holds schemas to the published JSON-Schema-Test-Suite for 2020-12, which a dependency carries. What
// is ours on purpose: formats are asserted, and a schema cannot refer to another document.
func TestJSONSchemaSuite(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata", "draft2020-12")
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("the JSON-Schema-Test-Suite is not in the module cache: schemas are not held against it")
	}
	tried, outside := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(data, &groups); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := filepath.Base(file)
		for _, g := range groups {
			if err := CheckSchema(g.Schema); err != nil && strings.Contains(err.Error(), "another document") {
				outside++
				continue
			}
			for _, c := range g.Tests {
				v, err := expr.Decode(c.Data)
				if err != nil {
					t.Fatal(err)
				}
				problems, err := Fit(g.Schema, v)
				if name == "format.json" && c.Valid && len(problems) > 0 {
					continue // asserted here
				}
				tried++
				if err != nil || (len(problems) == 0) != c.Valid {
					t.Errorf("%s: %s: %s: problems %v, %v; want valid %v", name, g.Description, c.Description, problems, err, c.Valid)
				}
			}
		}
	}
	if t.Logf("%d tests; %d schemas refer to others", tried, outside); tried < 1000 || outside > 80 {
		t.Errorf("%d tests tried, %d schemas left out", tried, outside)
	}
}

// TestNothingFitsFalse holds that what a schema forbids altogether is a problem, at its place.
func TestNothingFitsFalse(t *testing.T) {
	problems, err := Fit(json.RawMessage(`{"properties":{"a":false},"items":false}`), map[string]any{"a": json.Number("1"), "b": true})
	if err != nil || len(problems) != 1 || problems[0].Path != "/a" || problems[0].Code != "false" || problems[0].Message != "nothing is allowed here" {
		t.Errorf("Fit = %+v, %v", problems, err)
	}
}
