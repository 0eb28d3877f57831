package protocol

import (
	"encoding/json"
	"errors"
	"io"
)

// Problem is a rule that an event breaks, with the JSON pointer of the member.
type Problem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

var errContract = errors.New("not yet")

// Encode checks e against every writer's rule and returns its one line of JSON, without prefix and newline.
func Encode(e Event) ([]byte, error) { return nil, errContract }

// Decode reads one envelope, v1 or legacy. ok is false when line is no JSON object or has neither event_type nor type.
func Decode(line []byte) (e Event, problems []Problem, ok bool) { return }

// Open returns the typed payload of e, or an error for an unknown type or a payload that does not fit.
func (e Event) Open() (Payload, error) { return nil, errContract }

// DedupeKey identifies e within its sprite: its event_id, else (event_type, instant, hash of the canonical payload).
// Keys of the second kind repeat when equal events repeat; readers count them as a multiset.
func DedupeKey(e Event) string { return "" }

// Kind says what a Record holds.
type Kind string

const (
	KindEvent   Kind = "event"
	KindOutput  Kind = "output"
	KindWarning Kind = "warning"
)

// Record is one thing found in a raw exec stdout stream.
type Record struct {
	Kind     Kind
	Event    Event     // KindEvent
	Problems []Problem // KindEvent
	Text     string    // KindOutput: one line without its end
	Code     string    // KindWarning
	Line     int       // 1-based number of the line
	Detail   string    // KindWarning
}

// Scanner splits a raw stdout stream into events, output and warnings, with bounded memory.
type Scanner struct{}

// NewScanner reads from r.
func NewScanner(r io.Reader) *Scanner { return &Scanner{} }

// Next returns the next record, or io.EOF.
func (s *Scanner) Next() (Record, error) { return Record{}, io.EOF }

// Source says where a merged event was seen.
type Source string

const (
	SourceStream Source = "stream"
	SourceOutbox Source = "outbox"
	SourceBoth   Source = "both"
)

// Merged is one event of a reconciliation.
type Merged struct {
	Source Source
	Event  Event
}

// Reconcile merges what a stream showed with what the outbox holds: each event once, ascending by instant, stable.
// The outbox copy wins. Equal keys of the foreign kind count as a multiset.
func Reconcile(outbox, stream []Event) []Merged { return nil }

// Fingerprint identifies a proposal's content: {phase, exit_code, adjustment_type, adjustment_details}, as sha256 hex.
func (p EnvironmentProposal) Fingerprint() string { return "" }

// PayloadDigest is the sha256 hex over the canonical form (sorted keys, number literals untouched) of work_item_id,
// checkpoint_id, inputs and context of r: the key by which duplicate resumes are recognised.
func (r Resume) PayloadDigest() (string, error) { return "", errContract }

// Canonical returns raw with sorted keys, no insignificant space and number literals untouched.
func Canonical(raw json.RawMessage) (json.RawMessage, error) { return nil, errContract }
