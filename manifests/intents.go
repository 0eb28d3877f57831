package manifests

import (
	_ "embed"
	"encoding/json"
)

//go:embed intents.json
var intents []byte

// Intent says how an intent of one kind is carried out.
type Intent struct {
	Flow string `json:"flow"` // a ready-made flow
	Does string `json:"does"` // for people
	// Input holds inputs of the flow that the intent does not have to give.
	Input map[string]json.RawMessage `json:"input,omitempty"`
	// Actions are the actions that the plan names: an approval of the plan covers the controlled ones.
	Actions []string `json:"actions,omitempty"`
	Repo    bool     `json:"repo,omitempty"` // it needs a repository
	Keep    bool     `json:"keep,omitempty"` // the sprite is kept
	// Then is the intent that follows if the run found a fault.
	Then *Then `json:"then,omitempty"`
}

// Then says when the outcome of an intent's run calls for another intent, and for which.
type Then struct {
	Kind string `json:"kind"`
	// Health names the outcome that calls for it, "failing" if it is empty; it is a fault only then.
	Health string `json:"health,omitempty"`
	// When is a condition, and Input holds value expressions, over $out: the output of the run.
	When  json.RawMessage            `json:"when"`
	Input map[string]json.RawMessage `json:"input"`
}

// Intents returns the kinds of intents.
func Intents() map[string]Intent {
	var all map[string]Intent
	if err := json.Unmarshal(intents, &all); err != nil {
		panic("intents.json: " + err.Error()) // a test reads it
	}
	return all
}
