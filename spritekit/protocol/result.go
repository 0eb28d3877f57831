package protocol

import (
	"encoding/json"
	"slices"
	"strings"
)

// Result is the last stdout line of a skill that is not an event. Exactly one of Data (ok), Error (not ok) and
// Waiting (ok, suspended) is set.
type Result struct {
	OK       bool            `json:"ok"`
	Skill    string          `json:"skill"`
	Data     json.RawMessage `json:"data,omitempty"`
	Error    *Fault          `json:"error,omitempty"`
	Waiting  *Waiting        `json:"waiting,omitempty"`
	Warnings []Warning       `json:"warnings,omitempty"`
	// Events counts the events that the call emitted, so that a reader knows whether its stream was complete.
	// The result record in the outbox is not counted.
	Events int    `json:"events"`
	CallID string `json:"call_id,omitempty"`
}

// Fault describes a failure to programs (Code, Retryable, Details) and to people (Message, Hint).
type Fault struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Hint      string          `json:"hint,omitempty"`
	Retryable bool            `json:"retryable"`
	Details   json.RawMessage `json:"details,omitempty"`
}

// CodeCutOff is the code of the fault of a call that was cut off before, made again, and cannot go on: lattice restores the files
// and makes it once more, from the beginning.
const CodeCutOff = "call_cut_off"

// Warning is a message that does not change the outcome.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Exit codes shared by every skill and, for its own failures, by lattice.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitBadInput    = 2
	ExitNotFound    = 3
	ExitDenied      = 4
	ExitNetwork     = 5
	ExitBusy        = 6
	ExitUnsafe      = 7
	ExitUnsupported = 8
	ExitLimit       = 9
	ExitInternal    = 70
	ExitWaiting     = 75
	ExitTimeout     = 124
	ExitCancelled   = 130

	// ExitSignal plus n is the exit code of a process that was ended by signal n.
	ExitSignal = 128
)

// Resume is /workspace/.lattice/resume.json: the answers of the orchestrator to a sprite that waits ("Resume Semantics").
type Resume struct {
	WorkItemID   string          `json:"work_item_id"`
	CheckpointID string          `json:"checkpoint_id"`
	Inputs       json.RawMessage `json:"inputs"`
	Context      ResumeContext   `json:"context"`
}

// ResumeContext identifies the resumed call, and who answered and when. Readers tolerate unknown members.
type ResumeContext struct {
	RunID      string `json:"run_id,omitempty"`
	CallID     string `json:"call_id,omitempty"`
	Node       string `json:"node,omitempty"`
	AnsweredBy string `json:"answered_by,omitempty"`
	AnsweredAt string `json:"answered_at,omitempty"`
}

// Marker is /workspace/.lattice/resumed, with which a sprite recognises a duplicate resume.
type Marker struct {
	CheckpointID  string          `json:"checkpoint_id"`
	PayloadSHA256 string          `json:"payload_sha256"` // over work_item_id, checkpoint_id, inputs, context
	ProcessedAt   string          `json:"processed_at"`
	Result        json.RawMessage `json:"result,omitempty"`
}

// Task is /workspace/.lattice/task.json, written before the first exec of a run.
type Task struct {
	RunID       string         `json:"run_id"`
	Goal        string         `json:"goal"`
	Repo        string         `json:"repo,omitempty"`
	Constraints map[string]any `json:"constraints,omitempty"`
	Acceptance  string         `json:"acceptance,omitempty"`
	Answers     map[string]any `json:"answers,omitempty"`
}

// BoardEntries are the entries of Dir that belong to a repository, as its task board does, and can be committed. All others are the
// runtime's; RuntimeEntries are those of them that are known.
var (
	BoardEntries   = []string{".gitignore", "config.json", "events", "policy.toml", "tasks", "workers"}
	RuntimeEntries = []string{
		"agents", "answers.json", "calls", "in", "locks", "logs", "loop", "out", "outbox.jsonl", "queue", "resume.json", "resumed", "spill", "task.json", "tmp", "transcripts",
	}
)

// IsRuntime reports whether a path of a work tree, with slashes, is the runtime's: Dir itself, or below it and not an entry of a
// board.
func IsRuntime(path string) bool {
	first, rest, _ := strings.Cut(path, "/")
	entry, _, _ := strings.Cut(rest, "/")
	return first == Dir && !slices.Contains(BoardEntries, entry)
}

// Files below the workspace that the protocol names.
const (
	Dir           = ".lattice"
	OutboxFile    = ".lattice/outbox.jsonl"
	ResumeFile    = ".lattice/resume.json"
	MarkerFile    = ".lattice/resumed"
	TaskFile      = ".lattice/task.json"
	AnswersFile   = ".lattice/answers.json"
	CallsDir      = ".lattice/calls"
	SeedFile      = ".lattice/in/repo.bundle" // the run's repository, put there by the orchestrator
	TranscriptDir = ".lattice/transcripts"
	SpillDir      = ".lattice/spill" // of payloads and results that are too large for a line
)
