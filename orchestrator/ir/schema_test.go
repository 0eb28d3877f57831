package ir

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestSchemasThatCombineOthers checks that nothing is concluded from the properties of a schema that also combines others.
func TestSchemasThatCombineOthers(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas"} {
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":{}},%q:[{"required":["a"]}]}`, keyword)
		if o, ok := ViewOf(json.RawMessage(schema)).ResolveObject(); ok {
			t.Errorf("a schema with %s is taken for %v alone", keyword, o)
		}
	}
	if _, ok := ViewOf(json.RawMessage(`{"type":"object","properties":{"a":{}}}`)).ResolveObject(); !ok {
		t.Error("a schema that combines nothing is not read")
	}
}
