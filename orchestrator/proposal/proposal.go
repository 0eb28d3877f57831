// Package proposal judges the changes of their environment that sprites propose (ENVIRONMENT_PROPOSAL), and applies those
// that were accepted to the flows of later runs. Start with State: the state of one proposal, a fold of [Fact]s.
//
//	adjustment  the eight types of changes, each with closed details
//	proposal    facts about a proposal, and the state that they add up to
//	apply       a flow with the accepted changes in it
//
// A sprite proposes and never hears of the outcome. A change takes effect when it has proved itself in a fresh sprite and,
// where its scope or type asks for it, a person approved it; confidence and evidence are shown and decide nothing. The
// package is pure. (Seed: protocol v1, ENVIRONMENT_PROPOSAL.)
package proposal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Status of a proposal.
type Status string

const (
	Pending  Status = "pending"
	Verified Status = "verified" // accepted: later runs have it
	Rejected Status = "rejected"
)

// FactKind is the kind of a Fact.
type FactKind string

const (
	Proposed FactKind = "proposed" // a sprite proposed it, again perhaps
	Tried    FactKind = "tried"    // the failed phase ran again in a fresh sprite
	Checked  FactKind = "checked"  // the CI of the repository has a verdict about a commit of the run
	Approved FactKind = "approved" // a person approved it
	Refused  FactKind = "refused"  // a person rejected it
)

// Fact is something that happened to a proposal.
type Fact struct {
	Kind FactKind  `json:"kind"`
	ID   string    `json:"id"` // of the proposal
	At   time.Time `json:"at"`
	Repo string    `json:"repo,omitempty"`
	Run  string    `json:"run_id,omitempty"` // in which it was proposed, or tried
	Node string    `json:"node,omitempty"`   // Proposed: the node of that run that failed, "" when none did
	// Proposal is set in Proposed.
	Proposal *protocol.EnvironmentProposal `json:"proposal,omitempty"`
	OK       bool                          `json:"ok,omitempty"`     // Tried, Checked
	Commit   string                        `json:"commit,omitempty"` // Checked
	Detail   string                        `json:"detail,omitempty"`
	By       string                        `json:"by,omitempty"` // Approved, Refused
	Comments string                        `json:"comments,omitempty"`
}

// Check returns an error if f is not a fact about a proposal.
func (f Fact) Check() error {
	switch {
	case !slices.Contains([]FactKind{Proposed, Tried, Checked, Approved, Refused}, f.Kind):
		return fmt.Errorf("the fact %.40q about a proposal is not known", f.Kind)
	case f.ID == "" || f.Kind == Proposed && f.Proposal == nil:
		return errors.New("a fact about a proposal names none")
	}
	return nil
}

// ID returns the id of a proposal for a repository: proposals with the same content are one.
func ID(repo string, p protocol.EnvironmentProposal) string {
	sum := sha256.Sum256([]byte(p.Fingerprint() + "\x00" + repo))
	return hex.EncodeToString(sum[:8])
}

// Bounds of the repeated proposals that a State keeps.
const (
	maxRuns     = 20
	maxEvidence = 50
)

// State is the state of one proposal.
type State struct {
	ID          string     `json:"id"`
	Fingerprint string     `json:"fingerprint"`
	Status      Status     `json:"status"`
	Repo        string     `json:"repo"`
	Scope       string     `json:"scope"`
	Adjustment  Adjustment `json:"adjustment"`
	// Failure is the observed failure of the first proposal.
	Failure    protocol.ObservedFailure `json:"observed_failure"`
	Confidence float64                  `json:"confidence"` // the highest
	Evidence   []string                 `json:"evidence"`
	Count      int                      `json:"count"`
	Runs       []string                 `json:"runs"` // the newest in which it was proposed
	Node       string                   `json:"node,omitempty"`
	FirstAt    time.Time                `json:"first_at"`
	LastAt     time.Time                `json:"last_at"`
	Trial      *Trial                   `json:"trial,omitempty"`    // the last one
	CI         *CI                      `json:"ci,omitempty"`       // the last verdict
	Approval   *Approval                `json:"approval,omitempty"` // or rejection
	// Needs lists the steps that are missing for acceptance: "verification", "approval".
	Needs []string `json:"needs,omitempty"`
}

// Trial is a run in a fresh sprite with the change applied.
type Trial struct {
	Run    string    `json:"run_id"`
	At     time.Time `json:"at"`
	OK     bool      `json:"ok"`
	Detail string    `json:"detail,omitempty"`
}

// CI is the verdict of the repository's CI about the commit that a run with the proposal pushed.
type CI struct {
	Run    string    `json:"run_id"`
	Commit string    `json:"commit"`
	At     time.Time `json:"at"`
	OK     bool      `json:"ok"`
}

// Approval is a person's decision.
type Approval struct {
	Approved bool      `json:"approved"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Comments string    `json:"comments,omitempty"`
}

// Next returns the state after a fact. A fact that may not happen is an error.
func (s State) Next(f Fact) (State, error) {
	if err := f.Check(); err != nil {
		return s, err
	}
	if s.ID == "" && f.Kind != Proposed {
		return s, fmt.Errorf("the proposal %s was never made", f.ID)
	}
	switch f.Kind {
	case Proposed:
		if s.ID == "" {
			a, err := Parse(f.Proposal.SuggestedAdjustment)
			if err != nil {
				return s, err
			}
			s = State{ID: f.ID, Fingerprint: f.Proposal.Fingerprint(), Status: Pending, Repo: f.Repo, Scope: f.Proposal.Scope,
				Adjustment: a, Failure: f.Proposal.ObservedFailure, FirstAt: f.At}
		}
		s = s.countDuplicate(f)
	case Tried:
		s.Trial = &Trial{Run: f.Run, At: f.At, OK: f.OK, Detail: f.Detail}
		switch {
		case s.Approval != nil: // a person's word stands
		case f.OK:
			s.Status = Pending
		default:
			s.Status = Rejected
		}
	case Checked:
		s.CI = &CI{Run: f.Run, Commit: f.Commit, At: f.At, OK: f.OK}
	case Approved:
		s.Approval = &Approval{true, f.By, f.At, f.Comments}
		if s.Status == Rejected {
			s.Status = Pending
		}
	case Refused:
		s.Approval = &Approval{false, f.By, f.At, f.Comments}
		s.Status = Rejected
	}
	return s.completeState(), nil
}

// countDuplicate takes one more proposal of the same content into the state.
func (s State) countDuplicate(f Fact) State {
	s.Count++
	s.LastAt = f.At
	s.Confidence = max(s.Confidence, f.Proposal.Confidence)
	if f.Proposal.Scope == protocol.ScopeGlobalCandidate {
		s.Scope = f.Proposal.Scope // the stricter one holds
	}
	if f.Node != "" {
		s.Node = f.Node
	}
	s.Runs = append(slices.DeleteFunc(slices.Clone(s.Runs), func(r string) bool { return r == f.Run }), f.Run)
	s.Runs = s.Runs[max(0, len(s.Runs)-maxRuns):]
	for _, e := range f.Proposal.Evidence {
		if len(s.Evidence) < maxEvidence && !slices.Contains(s.Evidence, e) {
			s.Evidence = append(slices.Clip(s.Evidence), e)
		}
	}
	return s
}

// completeState computes the missing steps, and accepts the proposal if there are none.
func (s State) completeState() State {
	s.Needs = nil
	if s.Status == Rejected {
		return s
	}
	if s.Adjustment.NeedsVerification() && (s.Trial == nil || !s.Trial.OK) && (!s.AwaitsCI() || s.CI == nil || !s.CI.OK) {
		s.Needs = append(s.Needs, "verification")
	}
	if s.Adjustment.NeedsApproval(s.Scope) && (s.Approval == nil || !s.Approval.Approved) {
		s.Needs = append(s.Needs, "approval")
	}
	s.Status = Pending
	if len(s.Needs) == 0 {
		s.Status = Verified
	}
	return s
}

// AwaitsCI reports whether a green CI of the repository verifies the change. A change for all repositories needs a fresh sprite.
func (s State) AwaitsCI() bool {
	return s.Scope == protocol.ScopeRepoSpecific && s.Repo != "" && s.Status != Rejected && s.Adjustment.NeedsVerification()
}

// Applies reports whether runs on a repository have the change.
func (s State) Applies(repo string) bool {
	return s.Status == Verified && s.Adjustment.NeedsVerification() && (s.Repo == repo || s.Scope == protocol.ScopeGlobalCandidate)
}

// Summary describes the state in a line for people.
func (s State) Summary() string {
	text := s.Adjustment.String()
	switch {
	case s.Status == Rejected && s.Trial != nil && !s.Trial.OK && s.Approval == nil:
		text += " (it did not help)"
	case len(s.Needs) > 0:
		text += " (needs " + strings.Join(s.Needs, " and ") + ")"
	}
	return text
}
