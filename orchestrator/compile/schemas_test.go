package compile_test

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
)

// A schema that no answer could be held against is found before anybody is asked.
func TestSchemasThatAreNone(t *testing.T) {
	const doc = `{"execir_version":"1.0","schemas":{"Good":{"type":"object"},"Bad":SCHEMA},"entry_node":"a","nodes":[{"id":"a","op":"PACK","inputs":{"x":1}}],"edges":[]}`
	for schema, says := range map[string]string{
		`{"type":"object"}`: "", `{"type":"objekt"}`: "schema_invalid /schemas/Bad", `{"$ref":"https://example.com/s"}`: "schema_invalid /schemas/Bad", `{"pattern":"("}`: "schema_invalid /schemas/Bad",
	} {
		flow, findings := compile.Parse([]byte(strings.Replace(doc, "SCHEMA", schema, 1)), manifests.Lookup)
		got := ""
		for _, f := range findings {
			got += f.Code + " " + f.Pointer
		}
		if got != says || (flow == nil) != (says != "") {
			t.Errorf("Parse with schema %s = %v, %q, want %q", schema, flow != nil, got, says)
		}
	}
}
