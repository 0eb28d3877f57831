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
}

// Intents returns the kinds of intents.
func Intents() map[string]Intent {
	var all map[string]Intent
	if err := json.Unmarshal(intents, &all); err != nil {
		panic("intents.json: " + err.Error()) // a test reads it
	}
	return all
}
