// Package difference describes how two runs, or two moments of a run, differ. Start with [Node]. It reads nothing:
// package travel of the leader reads the runs.
package difference

import "encoding/json"

// Variable is a variable that differs. A member that is missing did not exist.
type Variable struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// Node is a node in two runs. A side that is missing did not begin it.
type Node struct {
	Node string `json:"node"`
	From *Side  `json:"from,omitempty"`
	To   *Side  `json:"to,omitempty"`
}

// Side is how a node stands in a run.
type Side struct {
	Visits     int    `json:"visits"`
	State      string `json:"state"` // of the last visit
	DurationMS int64  `json:"duration_ms"`
	Message    string `json:"message,omitempty"`
}

// Differs reports whether the node went another way. Durations do not count.
func (n Node) Differs() bool {
	return n.From == nil || n.To == nil || n.From.Visits != n.To.Visits || n.From.State != n.To.State || n.From.Message != n.To.Message
}

// Patch is the content of a change, as git diff prints it. Its text is a sprite's: it may hold anything.
type Patch struct {
	Text string `json:"patch"`
	Cut  bool   `json:"patch_cut,omitempty"`  // there is more
	Note string `json:"patch_note,omitempty"` // which files are left out, and why
}
