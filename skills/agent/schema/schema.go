// Package schema compares the answers of agents with JSON schemas. Its library takes a tenth of a skill's start to get
// ready, so that only the second file links it: Match does the work there. It reads no files, and
// follows no references to other documents.
package schema

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Match says why schema is no JSON schema, or where value does not match it; both are "" when all is well. Without a value
// it judges the schema alone.
func Match(schema, value json.RawMessage) (noSchema, mismatch string) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return err.Error(), ""
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return err.Error(), ""
	}
	if value == nil {
		return "", ""
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return "", fmt.Sprintf("it is no JSON: %v", err)
	}
	if err := resolved.Validate(v); err != nil {
		return "", err.Error()
	}
	return "", ""
}
