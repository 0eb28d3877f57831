package compile

import (
	"errors"
	"strings"
	"testing"
)

// TestMigrate runs migrations of a past that the formats do not have yet.
func TestMigrate(t *testing.T) {
	rename := func(old, name string) func(map[string]any) (map[string]any, error) {
		return func(doc map[string]any) (map[string]any, error) {
			if _, ok := doc[old]; !ok {
				return nil, errors.New("there is no " + old)
			}
			doc[name] = doc[old]
			delete(doc, old)
			return doc, nil
		}
	}
	past := []Migration{
		{Member: "planir_version", From: "0.8", To: "0.9", Apply: rename("aim", "purpose")},
		{Member: "planir_version", From: "0.9", To: "1.0", Apply: rename("purpose", "goal")},
		{Member: "workflow_version", From: "0.9", To: "0.9", Apply: func(d map[string]any) (map[string]any, error) { return d, nil }},
	}
	for name, c := range map[string]struct {
		doc, want, applied, finding string
	}{
		"as it is":   {doc: ` {"planir_version" : "1.0"}`, want: ` {"planir_version" : "1.0"}`},
		"one step":   {doc: `{"planir_version":"0.9","purpose":1.50}`, want: "{\n  \"goal\": 1.50,\n  \"planir_version\": \"1.0\"\n}\n", applied: "0.9 → 1.0"},
		"two steps":  {doc: `{"planir_version":"0.8","aim":"<a>"}`, want: "{\n  \"goal\": \"<a>\",\n  \"planir_version\": \"1.0\"\n}\n", applied: "0.8 → 0.9, 0.9 → 1.0"},
		"newer":      {doc: `{"execir_version":"1.7"}`, finding: "the document is ExecIR 1.7; there is no migration to 1.0"},
		"too old":    {doc: `{"planir_version":"0.1"}`, finding: "the document is PlanIR 0.1; there is no migration to 1.0"},
		"missing":    {doc: `{}`, finding: "no version member"},
		"misshapen":  {doc: `{"planir_version":"0.9"}`, finding: "0.9 → 1.0: there is no purpose"},
		"in circles": {doc: `{"workflow_version":"0.9"}`, finding: "lead in a circle"},
		"no JSON":    {doc: `{`, finding: "not JSON"},
		"twice":      {doc: `{"planir_version":"1.0","planir_version":"1.0"}`, finding: "appears twice"},
	} {
		t.Run(name, func(t *testing.T) {
			out, applied, findings := Migrate([]byte(c.doc), past)
			if c.finding != "" {
				if len(findings) == 0 || !strings.Contains(findings[0].Message, c.finding) {
					t.Errorf("findings %+v, want %q", findings, c.finding)
				}
				return
			}
			if string(out) != c.want || strings.Join(applied, ", ") != c.applied || len(findings) > 0 {
				t.Errorf("got %q by %v, %+v; want %q by %s", out, applied, findings, c.want, c.applied)
			}
		})
	}
}
