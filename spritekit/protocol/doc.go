// Package protocol implements version 1 of the protocol between sprites and Lattice: the envelope, its nine event types, the
// result line, and the readers and writers of both. Event is the type to look at first; Scanner reads what a sprite
// prints, Encode writes what a skill emits.
//
// The conversation of one call, in order:
//
//	Lattice → sprite   exec of /skills/<skill>, one JSON object on stdin (the only way down is exec)
//	sprite → Lattice   LATTICE_EVENT {…}    zero or more, each also in /workspace/.lattice/outbox.jsonl, outbox first
//	sprite → Lattice   {"ok":…,"skill":…}   the result: the last stdout line that is not an event
//
// and of a call that needs something from outside:
//
//	sprite → Lattice   ACTION_REQUEST (blocking)      if an external action is needed
//	sprite             takes a checkpoint
//	sprite → Lattice   WAITING {reason, checkpoint_id, expected_inputs}, then the result with "waiting", exit 75
//	Lattice → sprite   restores the checkpoint, writes resume.json, execs the same call again
//	sprite → Lattice   INFO kind "resume", …, the result
//
// Writers are strict: Encode refuses an event that breaks a rule. Readers are tolerant: Decode keeps every event,
// reports the rules that it breaks, and an event with problems must not be acted on. Unknown members and types are kept;
// an event without protocol_version is v1, one of another version is kept but never acted on. The lower-case legacy
// events (root member "type") are converted in legacy.go and nowhere else.
//
// The package has no state: it imports only the standard library and uses no clock, environment, file or network. It
// does not panic on any input; nesting, line length and the number of problems are bounded.
package protocol

// Version is the protocol_version that this package writes and acts on.
const Version = "v1"

// Prefix marks an event on stdout. It must be at the start of a line and includes the trailing space.
const Prefix = "LATTICE_EVENT "

const (
	// MaxLine is the length in bytes, without the line end, of the longest line that a reader does not cut.
	MaxLine = 1 << 20
	// SpillAt is the size in bytes above which a writer puts a payload or result into a file and sends
	// {"path","size","sha256"} instead.
	SpillAt = 256 << 10
	// MaxDepth limits the nesting of arrays and objects in an event.
	MaxDepth = 1000
	// maxProblems limits the problems that are reported for one event.
	maxProblems = 32
)

// Problem is a rule that an event breaks, with the JSON pointer of the member.
type Problem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}
