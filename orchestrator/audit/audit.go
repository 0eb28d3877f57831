// Package audit describes the record of what was decided and done outside of sprites: every verdict of the policy, every
// approval, every action that was performed or refused, every step of an intent. Start with [Entry]. Package store keeps
// the entries; this package is pure.
//
// The record is append-only. Each entry holds the digest of the entry before it, so that a change of any byte of an
// earlier entry breaks the chain at that entry ([Entry.Verify]). The chain does not prevent a person who can write the file
// from writing a new chain; keep a copy of a digest outside to detect that.
//
// An entry has a subject, such as a run or an intent, whose entries are its history. It may have a key: of several entries
// with one key only the first is appended, so that a repetition after a crash adds nothing.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/text"
)

// Entry is a record of one event.
type Entry struct {
	Seq     uint64          `json:"seq"`
	At      time.Time       `json:"at"`
	Kind    Kind            `json:"kind"`
	Subject string          `json:"subject"` // run:ID, intent:ID or commit:ID
	Key     string          `json:"key,omitempty"`
	Who     *Who            `json:"who,omitempty"` // the person who caused it
	Body    json.RawMessage `json:"body,omitempty"`
	Prev    string          `json:"prev,omitempty"` // Sum of the entry before
	Sum     string          `json:"sum,omitempty"`
}

// Kind is the kind of an entry.
type Kind string

const (
	RunStarted      Kind = "run.started"
	ActionRequested Kind = "action.requested" // with the verdict of the policy
	ActionApproved  Kind = "action.approved"
	ActionRejected  Kind = "action.rejected"
	ApprovalRefused Kind = "approval.refused" // the policy does not let this person approve
	ActionBegun     Kind = "action.begun"
	ActionPerformed Kind = "action.performed"
	ActionFailed    Kind = "action.failed" // it was refused, for good
	WaitAnswered    Kind = "wait.answered"
	Intent          Kind = "intent"           // a fact of an intent
	Proposal        Kind = "proposal"         // a fact about a change of the environment
	Schedule        Kind = "schedule"         // how far a schedule has come
	Token           Kind = "token"            // a fact about a token of the HTTP interface, by its digest
	Session         Kind = "session"          // a session of a browser began or ended, by its digest
	WebRefused      Kind = "web.refused"      // a request that the page of another site may have sent
	Secret          Kind = "secret"           // a fact about a secret and its leases, by name
	Sprite          Kind = "sprite"           // a call of the Sprites API
	Request         Kind = "request"          // a request to a code host
	Budget          Kind = "budget"           // a question to a model or a call of an agent, with the amount that it takes
	Verified        Kind = "verified"         // a statement about a commit was signed
	IntentRefused   Kind = "intent.refused"   // its creator has created too many
	IntentNewest    Kind = "intent.newest"    // the newest intent about a subject
	IntentAsks      Kind = "intent.asks"      // an intent about a subject that people have to approve
	Delivery        Kind = "delivery"         // a webhook of a code host, or its outcome
	Command         Kind = "command"          // a command in a comment at a code host
	Post            Kind = "post"             // a comment of lattice at a code host
	Pull            Kind = "pull"             // lattice opened a pull request for a run
	Review          Kind = "review"           // a review of such a pull request, or its outcome
	Task            Kind = "task"             // a change of a task that came over the interface or the page
	Fleet           Kind = "fleet"            // a change of a sprite that a fleet file declares, or its outcome
	Disarmed        Kind = "disarmed"         // text of a sprite that looks like more than it is, and was kept as text
	ProposalRefused Kind = "proposal.refused" // a change of the environment that names more than the form allows
	AnswerRefused   Kind = "answer.refused"   // an answer to a wait that does not fit it
	Broken          Kind = "audit.broken"     // an entry of this log was changed or removed
	Write           Kind = "write"            // a request of the interface that may change something, and why it was refused
	Flow            Kind = "flow"             // a new text of a flow's file that came over the interface or the page
)

// capabilities maps the capabilities of lattice to the kinds of entries about them.
var capabilities = map[string][]Kind{
	"action":  {ActionRequested, ActionApproved, ActionRejected, ApprovalRefused, ActionBegun, ActionPerformed, ActionFailed},
	"forge":   {Request, Delivery, Command, Post, Pull, Review},
	"model":   {Budget},
	"secret":  {Secret},
	"sprites": {Sprite},
}

// Capabilities returns the names of capabilities whose use is recorded.
func Capabilities() []string { return slices.Sorted(maps.Keys(capabilities)) }

// IsCall reports whether the entry is about a single call, of which there are many. Lists leave them out by default.
func (e Entry) IsCall() bool { return e.Kind == Sprite || e.Kind == Request || e.Kind == Write }

// Uses reports whether an entry is about the use of a capability.
func (e Entry) Uses(capability string) bool { return slices.Contains(capabilities[capability], e.Kind) }

// Who is a person or a program, as the operating system, the settings or a code host knows them.
type Who struct {
	Name  string `json:"name"` // of a user; token:NAME; or CODE-HOST:ID of an account
	UID   int    `json:"uid"`
	Login string `json:"login,omitempty"` // of an account, which its owner can change
	Bot   bool   `json:"bot,omitempty"`   // the code host says that the account is a program's
	// Via is the program that made the request for the person, such as an agent over MCP, by its own account; "" for lattice
	// itself. No rule of a policy looks at it.
	Via string `json:"via,omitempty"`
}

// String returns the name of the person, and of the program.
func (w *Who) String() string {
	switch {
	case w == nil:
		return ""
	case w.Via != "":
		return w.Name + " via " + w.Via
	}
	return w.Name
}

// Run returns the subject of a run.
func Run(id string) string { return "run:" + id }

// CommitOf returns the subject of a commit.
func CommitOf(id string) string { return "commit:" + id }

// IntentOf returns the subject of an intent.
func IntentOf(id string) string { return "intent:" + id }

// Chain returns e as the successor of an entry with the digest prev, with its own digest.
func (e Entry) Chain(seq uint64, prev string) (Entry, error) {
	e.Seq, e.Prev, e.Sum = seq, prev, ""
	e.At = e.At.UTC()
	sum, err := e.computeSum()
	e.Sum = sum
	return e, err
}

func (e Entry) computeSum() (string, error) {
	e.Sum = ""
	raw, err := json.Marshal(e) // escapes <, > and &, whether the body does or not
	if err != nil {
		return "", fmt.Errorf("encode audit entry %d: %w", e.Seq, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Verify returns an error that names e if it is not the successor of the entry number seq-1 with the digest prev.
func (e Entry) Verify(seq uint64, prev string) error {
	if e.Seq != seq {
		return fmt.Errorf("audit entry %d has the number %d", seq, e.Seq)
	}
	if e.Prev != prev {
		return fmt.Errorf("audit entry %d does not follow the entry before it", seq)
	}
	sum, err := e.computeSum()
	if err != nil {
		return err
	}
	if sum != e.Sum {
		return fmt.Errorf("audit entry %d was changed after it was written", seq)
	}
	return nil
}

// secretKeys are names of members whose values are never recorded.
var secretKeys = []string{"token", "password", "secret", "key", "api_key", "apikey", "access_token", "authorization", "private_key", "credential", "value"}

// maxText is the largest size of a text in a body, in bytes.
const maxText = 4 << 10

// Redact returns a JSON value without the values of members that hold credentials, and with long texts cut.
func Redact(raw json.RawMessage) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	out, err := json.Marshal(redactValue(v))
	if err != nil {
		return nil
	}
	return out
}

func redactValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if slices.Contains(secretKeys, strings.ToLower(name)) {
				v[name] = "[redacted]"
				continue
			}
			v[name] = redactValue(member)
		}
	case []any:
		for i := range v {
			v[i] = redactValue(v[i])
		}
	case string:
		if len(v) > maxText {
			return text.Cut(v, maxText) + "…"
		}
	}
	return v
}
