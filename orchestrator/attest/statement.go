// Package attest describes signed statements that a commit was verified. Start with [Judge], which decides whether the report
// of a verification is green, and [NewStatement]. [Sign] puts a statement into an envelope and [Envelope.Open] checks one;
// [LoadKey] reads the key of the installation and makes it at first use.
//
// A statement is an in-toto statement v1 in a DSSE envelope, signed with ed25519, so that other programs can check it with
// the public key alone. It contains no time of day: the same verification gives the same bytes.
package attest

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// StatementType is the type of in-toto statements.
const StatementType = "https://in-toto.io/Statement/v1"

// PredicateType returns the type of the predicate, the address of its schema.
func PredicateType() string { return manifests.SchemaURL("verification") }

// Statement says that a commit was verified, and how it went.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is a commit.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Verdict is the result of a verification.
type Verdict string

const (
	Green Verdict = "green"
	Red   Verdict = "red"
)

// Predicate describes a verification.
type Predicate struct {
	Verdict    Verdict                  `json:"verdict"`
	Reason     string                   `json:"reason,omitempty"` // why it is red
	Base       string                   `json:"base"`             // commit from which the protected files are
	Commit     string                   `json:"commit"`
	Tree       string                   `json:"tree"`
	Restored   []string                 `json:"restored"` // protected files that the commit had changed
	Commands   []protocol.VerifyCommand `json:"commands"`
	DurationMS int64                    `json:"duration_ms"`
	CostUSD    float64                  `json:"cost_usd"` // of models; commands ask none
	Input      json.RawMessage          `json:"input"`    // of the skill that verified
	RunID      string                   `json:"run_id"`
	WorkItem   string                   `json:"work_item_id"`
	CallID     string                   `json:"call_id"`
	Node       string                   `json:"node"`
	Visit      int                      `json:"visit"`
	Attempt    int                      `json:"attempt"`
}

// request is the input of lattice.VerifySkill, as far as the report must agree with it.
type request struct {
	Base     string     `json:"base"`
	Commands [][]string `json:"commands"`
}

// Judge returns the predicate of a verification. It is green only if the report says so and agrees with the input: the same base,
// and every command in its order.
func Judge(v lattice.Verification) Predicate {
	p := Predicate{
		Verdict: Red, Input: v.Input, RunID: v.RunID, WorkItem: v.WorkItem, CallID: v.CallID, Node: v.Of.Node, Visit: v.Of.Visit, Attempt: v.Of.Number,
		Restored: []string{}, Commands: []protocol.VerifyCommand{},
	}
	var in request
	var r protocol.VerifyReport
	if json.Unmarshal(v.Input, &in) != nil || json.Unmarshal(v.Report, &r) != nil {
		p.Reason = "the report cannot be read"
		return p
	}
	p.Base, p.Commit, p.Tree, p.DurationMS = r.Base, r.Commit, r.Tree, r.DurationMS
	p.Restored, p.Commands = append(p.Restored, r.Restored...), append(p.Commands, r.Commands...)
	if p.Reason = whyRed(in, r); p.Reason == "" {
		p.Verdict = Green
	}
	return p
}

// whyRed returns the reason why a report is red, "" if it is green.
func whyRed(in request, r protocol.VerifyReport) string {
	switch {
	case r.Commit == "" || r.Tree == "":
		return "the report names no commit"
	case r.Base != in.Base:
		return fmt.Sprintf("the report is about the base %.12s, not %.12s", r.Base, in.Base)
	case len(r.Commands) == 0:
		return "no command ran"
	}
	for i, c := range r.Commands {
		if len(in.Commands) > 0 && (i >= len(in.Commands) || !slices.Equal(c.Argv, in.Commands[i])) {
			return fmt.Sprintf("%q was not to be run", c.Argv)
		}
		if c.Status != "passed" {
			text := fmt.Sprintf("%q: %s", c.Argv, c.Status)
			if len(c.Failures) > 0 {
				text += ": " + c.Failures[0].ID + ": " + c.Failures[0].Message
			}
			return text
		}
	}
	switch {
	case len(r.Commands) < len(in.Commands):
		return fmt.Sprintf("%q did not run", in.Commands[len(r.Commands)])
	case r.Status != "passed":
		return "the verification ended with " + r.Status
	}
	return ""
}

// Attest returns the fact that a verification was judged and that its statement was signed with key.
func Attest(key ed25519.PrivateKey, v lattice.Verification) (lattice.Attested, error) {
	p := Judge(v)
	signed, err := Sign(key, NewStatement(p))
	if err != nil {
		return lattice.Attested{}, err
	}
	raw, err := json.Marshal(signed)
	return lattice.Attested{Green: p.Verdict == Green, Reason: p.Reason, Commit: p.Commit, Statement: signed.Digest(), Envelope: raw}, err
}

// NewStatement returns the statement about a verification.
func NewStatement(p Predicate) Statement {
	return Statement{
		Type: StatementType, PredicateType: PredicateType(), Predicate: p,
		Subject: []Subject{{Name: "commit", Digest: map[string]string{"gitCommit": p.Commit}}},
	}
}
