// Package answer checks that the answer of an agent is JSON that matches a schema. spritekit-extra compares, because it holds the
// library of schemas.
package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxWait bounds the time of a comparison.
const maxWait = 30 * time.Second

// Comparison asks whether a value matches a JSON schema or, without a value, whether the schema is one.
type Comparison struct {
	Schema json.RawMessage `json:"schema"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// Verdict is the result of a Comparison; both texts are empty if the value matches.
type Verdict struct {
	NoSchema string `json:"no_schema,omitempty"` // why the schema is invalid
	Mismatch string `json:"mismatch,omitempty"`  // where the value does not match it
}

// Matcher compares. Its error means that the comparison could not be made.
type Matcher func(context.Context, Comparison) (Verdict, error)

// Command is the command of spritekit-extra that reads a Comparison from stdin and writes its Verdict to stdout.
const Command = "match-schema"

// AskExtra returns a Matcher that uses spritekit-extra.
func AskExtra(f extra.File) Matcher {
	return func(ctx context.Context, c Comparison) (v Verdict, err error) {
		stdin, err := json.Marshal(c)
		if err != nil {
			return v, fmt.Errorf("compare with output_schema: %w", err)
		}
		var stdout bytes.Buffer
		if err := f.Run(ctx, "output_schema of agent.run", Command, stdin, &stdout); err != nil {
			return v, err
		}
		if err := json.Unmarshal(stdout.Bytes(), &v); err != nil {
			return v, fmt.Errorf("compare with output_schema: %w", err)
		}
		return v, nil
	}
}

// Schema is the JSON schema that the answer of an agent must match, if one is wanted.
type Schema struct {
	JSON  json.RawMessage // the input output_schema
	Match Matcher
}

// Check refuses an input output_schema that is not a JSON schema.
func (s Schema) Check(ctx context.Context) error {
	if !s.Wanted() {
		return nil
	}
	v, err := s.Match(ctx, Comparison{Schema: s.JSON})
	if err == nil && v.NoSchema != "" {
		err = skill.BadInput("/output_schema", "is not a JSON schema: %s", v.NoSchema)
	}
	return err
}

// Wanted reports whether the answer must match a schema.
func (s Schema) Wanted() bool {
	return len(s.JSON) > 0 && string(s.JSON) != "null"
}

// AskForJSON returns an addition to the prompt for agents that have no option for a schema.
func AskForJSON(schema json.RawMessage) string {
	return "\n\nEnd with your answer as one JSON value in a ```json block, after which nothing follows. It must match this JSON schema:\n" + string(schema) + "\n"
}

// Read returns the answer that must match the schema: a field of the last event, or the end of the final text.
func (s Schema) Read(given any, final string) (any, error) {
	value := given
	if value == nil {
		var err error
		if value, err = lastJSON(final); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("compare with output_schema: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait) // the call may be cancelled; its answer is there
	defer cancel()
	v, err := s.Match(ctx, Comparison{Schema: s.JSON, Value: text})
	if err != nil {
		return nil, err
	}
	if v.Mismatch != "" {
		return nil, fmt.Errorf("the agent's answer does not match output_schema: %s", v.Mismatch)
	}
	return value, nil
}

// lastJSON returns the JSON value at the end of a text: the whole text, its last block, or a suffix.
func lastJSON(text string) (any, error) {
	text = strings.TrimSpace(text)
	candidates := []string{text}
	if body, ok := strings.CutSuffix(text, "```"); ok {
		// The last ``` before the end may be within a string of the block, so try the earlier ones as well.
		for at := strings.LastIndex(body, "```"); at >= 0 && len(candidates) < 100; at = strings.LastIndex(body[:at], "```") {
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
		if !json.Valid([]byte(candidate)) {
			continue
		}
		var value any
		d := json.NewDecoder(strings.NewReader(candidate))
		d.UseNumber() // a float64 would round an id of many digits
		if d.Decode(&value) == nil {
			return value, nil
		}
	}
	return nil, errors.New("the agent's answer holds no JSON value at its end, and output_schema asks for one")
}
