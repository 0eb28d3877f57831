package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/spritekit/lattice/spritekit/skill"
)

// resolveSchema reads the input output_schema, nil for none.
func resolveSchema(raw json.RawMessage) (*jsonschema.Resolved, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, skill.BadInput("/output_schema", "is no JSON schema: %v", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, skill.BadInput("/output_schema", "is no JSON schema: %v", err)
	}
	return resolved, nil
}

// askForJSON is what an agent is told that has no way of its own to be held to a schema.
func askForJSON(schema json.RawMessage) string {
	return "\n\nEnd with your answer as one JSON value in a ```json block, after which nothing follows. It must match this JSON schema:\n" + string(schema) + "\n"
}

// structured finds the answer that the schema asks for: given by the agent, or at the end of its final text.
func structured(given any, final string, schema *jsonschema.Resolved) (any, error) {
	value := given
	if value == nil {
		var err error
		if value, err = lastJSON(final); err != nil {
			return nil, err
		}
	}
	if err := schema.Validate(value); err != nil {
		return nil, fmt.Errorf("the agent's answer does not match output_schema: %w", err)
	}
	return value, nil
}

// lastJSON finds the JSON value that a text is, or that its last block is, or with which it ends.
func lastJSON(text string) (any, error) {
	text = strings.TrimSpace(text)
	candidates := []string{text}
	if body, ok := strings.CutSuffix(text, "```"); ok {
		if at := strings.LastIndex(body, "```"); at >= 0 {
			block := body[at+3:]
			if nl := strings.IndexByte(block, '\n'); nl >= 0 { // the language
				block = block[nl+1:]
			}
			candidates = append(candidates, block)
		}
	}
	for at := 0; ; {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 || len(candidates) > 1000 {
			break
		}
		candidates = append(candidates, text[at+next:])
		at += next + 1
	}
	for _, candidate := range candidates {
		var value any
		if json.Unmarshal([]byte(candidate), &value) == nil && candidate != "" {
			return value, nil
		}
	}
	return nil, errors.New("the agent's answer holds no JSON value at its end, and output_schema asks for one")
}
