package protocol

import "encoding/json"

// VerifyReport is the result of test.verify: the commands that ran at a commit.
type VerifyReport struct {
	Status     string          `json:"status"` // passed or failed
	Base       string          `json:"base"`
	Commit     string          `json:"commit"`
	Tree       string          `json:"tree"`
	Restored   []string        `json:"restored"` // protected files that the commit had changed
	Commands   []VerifyCommand `json:"commands"`
	DurationMS int64           `json:"duration_ms"`
}

// VerifyCommand is a command that ran. Its members from Status on are those of test.run.
type VerifyCommand struct {
	Argv        []string        `json:"argv"`
	SHA256      string          `json:"sha256"` // of Argv as JSON
	Status      string          `json:"status"`
	Exit        json.RawMessage `json:"exit,omitempty"`
	DurationMS  int64           `json:"duration_ms"`
	Counts      json.RawMessage `json:"counts,omitempty"`
	Failures    []VerifyFailure `json:"failures"`
	Fingerprint string          `json:"fingerprint"`
}

// VerifyFailure is a failed test.
type VerifyFailure struct {
	ID      string `json:"id"`
	Message string `json:"message"`
}
