package ladder

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// TestCostlySchemas: a schema of a few lines cannot make a check take years, and one that is long or refers to itself as others do
// is no such schema.
func TestCostlySchemas(t *testing.T) {
	t.Parallel()
	chain := func(link string) string { // each link has two references, REF, to the one before
		defs := []string{`"s0":{}`}
		for i := 1; i <= 22; i++ {
			defs = append(defs, fmt.Sprintf(`"s%d":%s`, i, strings.ReplaceAll(link, "REF", fmt.Sprintf(`{"$ref":"#/$defs/s%d"}`, i-1))))
		}
		return `{"$ref":"#/$defs/s22","$defs":{` + strings.Join(defs, ",") + `}}`
	}
	deep := strings.Repeat(`{"x":`, 22) + "1" + strings.Repeat("}", 22)
	const expression = `{"$defs":{"e":{"oneOf":[{"type":"number"},{"type":"object","properties":{"op":{"const":"+"},"args":{"type":"array","items":{"$ref":"#/$defs/e"}}},"required":["op","args"]},
		{"type":"object","properties":{"op":{"const":"-"},"arg":{"$ref":"#/$defs/e"}},"required":["op","arg"]}]}},"$ref":"#/$defs/e"}`
	for name, tt := range map[string]struct {
		schema, value string
		costly        bool
	}{
		"allOf":                {chain(`{"allOf":[REF,REF]}`), `1`, true},
		"oneOf":                {chain(`{"oneOf":[REF,{"not":REF}]}`), `1`, true},
		"if":                   {chain(`{"if":REF,"then":REF}`), `1`, true},
		"dependentSchemas":     {chain(`{"dependentSchemas":{"x":REF},"allOf":[REF]}`), `{"x":1}`, true},
		"properties":           {`{"properties":{"x":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep, true},
		"a pattern":            {`{"properties":{"x":{"$ref":"#"}},"patternProperties":{"^x":{"$ref":"#"}}}`, deep, true},
		"items":                {`{"prefixItems":[{"$ref":"#"}],"contains":{"$ref":"#"}}`, strings.Repeat("[", 22) + strings.Repeat("]", 22), true},
		"additionalProperties": {`{"additionalProperties":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, deep, true},
		"a dynamic reference":  {`{"$dynamicAnchor":"a","properties":{"x":{"allOf":[{"$dynamicRef":"#a"},{"$dynamicRef":"#a"}]}}}`, deep, true},
		"of another type":      {chain(`{"type":"string","allOf":[REF,REF]}`), `1`, false},
		"one reference":        {chain(`{"allOf":[REF]}`), `1`, false},
		"a shallow value":      {`{"properties":{"x":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, `{"x":{"x":{"x":1}}}`, false},
		"an expression":        {expression, `{"op":"+","args":[1,{"op":"-","arg":{"op":"+","args":[1,{"op":"-","arg":2}]}}]}`, false},
		"a long list":          {`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"anyOf":[{"type":"string"},{"type":"number"}]}}}`, `[` + strings.Repeat("1,", 20_000) + `1]`, false},
	} {
		v, err := expr.Decode([]byte(tt.value))
		if err != nil {
			t.Fatal(err)
		}
		problems, err := Fit(json.RawMessage(tt.schema), v)
		if costly := len(problems) == 1 && problems[0].Code == "schema"; err != nil || costly != tt.costly {
			t.Errorf("%s: %+v, %v, want that it is too costly: %v", name, problems, err, tt.costly)
		}
	}
}
