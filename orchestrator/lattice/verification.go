package lattice

import "encoding/json"

// VerifySkill is the skill whose report lattice signs when the skill ran in a fork of its own.
const VerifySkill = "test.verify"

// DoAttest signs a report of VerifySkill (Command.Verification) and reports Attested.
const DoAttest CommandKind = "attest"

// Verification is the report of a commit's verification, with the place in the run where it was made.
type Verification struct {
	RunID    string          `json:"run_id"`
	WorkItem string          `json:"work_item_id"`
	Of       Attempt         `json:"of"`
	CallID   string          `json:"call_id"`
	Input    json.RawMessage `json:"input"`  // of the skill
	Report   json.RawMessage `json:"report"` // its data
	// Sprite is the fork in which it ran, which is removed; "" if the flow keeps it.
	Sprite string `json:"sprite,omitempty"`
}

// Attested holds the signed statement about a verification. The node ends after this fact, by its verdict.
type Attested struct {
	CommandID string          `json:"command_id"`
	Green     bool            `json:"green"`
	Reason    string          `json:"reason,omitempty"` // why it is not green
	Commit    string          `json:"commit"`
	Statement string          `json:"statement"` // sha256 of the payload of the envelope
	Envelope  json.RawMessage `json:"envelope"`  // DSSE
}

func (Attested) FactType() string { return "Attested" }
