// Package manifests is the contract data that both binaries embed: one skill.json per built-in skill, ready-made
// flows and JSON schemas. Skill is the type to look at first. The package reads nothing at run time but its own
// embedded files, and knows nothing of how a skill runs.
package manifests

import "encoding/json"

// Class says how far the effects of a skill reach (DESIGN 14); it decides what may be done after a cut-off.
type Class string

const (
	ClassRead       Class = "read"       // changes nothing; may run again
	ClassIdempotent Class = "idempotent" // may run again with the same outcome
	ClassSprite     Class = "sprite"     // effects stay in the sprite's files; restored, then run again
	ClassWorld      Class = "world"      // outside effects; never run again without a person
)

// Skill is a skill.json. In the file inputs and outputs are arrays of names or of objects; here they are objects.
type Skill struct {
	Name           string            `json:"name"`
	Description    string            `json:"description,omitempty"`
	Version        string            `json:"version,omitempty"`
	Inputs         []Field           `json:"inputs,omitempty"`
	Outputs        []Field           `json:"outputs,omitempty"`
	InputSchema    json.RawMessage   `json:"input_schema,omitempty"`
	OutputSchema   json.RawMessage   `json:"output_schema,omitempty"`
	Permissions    []string          `json:"permissions"`
	ProducesEvents bool              `json:"produces_events"`
	SideEffect     Class             `json:"side_effect,omitempty"` // default world
	TimeoutS       float64           `json:"timeout_s,omitempty"`
	Exec           []string          `json:"exec,omitempty"`
	Examples       []json.RawMessage `json:"examples,omitempty"`
	Variants       *Variants         `json:"variants,omitempty"`
}

// Field is one input or output. Type is "" (any), string, integer, number, boolean, map, array or array<T>.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type,omitempty"`
	Required    bool            `json:"required"`
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

// Variants lets the value of one string input choose permissions and class: git.push asks by default and pushes only
// with mode "direct".
type Variants struct {
	Input   string             `json:"input"`
	Default string             `json:"default"`
	Cases   map[string]Variant `json:"cases"`
}

// Variant replaces the manifest's permissions and class.
type Variant struct {
	Permissions []string `json:"permissions"`
	SideEffect  Class    `json:"side_effect"`
}
