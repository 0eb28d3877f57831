// Package intent holds the unit of "why is this done" (seed 001): an intent is proposed, classified, judged by the policy,
// approved by people where the policy says so, and carried out by a run. Start with [State] and [Apply]. The package is
// pure: a state is the fold of the facts of one intent, which the leader keeps in the audit log.
//
//	proposed → classified → gated → executing ⇄ waiting → succeeded | failed
//	    └──────────┴──────────┴─────────┴──────────┴────→ canceled, and rejected before execution
//
// An intent has a plan: the flow, its input, the repository and its base commit, and the actions that it may perform. Each
// change of the plan is a new version. An approval names the digest of one version and is worth nothing for another.
package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Status is the state of an intent.
type Status string

const (
	Proposed   Status = "proposed"
	Classified Status = "classified"
	Gated      Status = "gated" // people have to approve the plan
	Executing  Status = "executing"
	Waiting    Status = "waiting" // its run waits for a person
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	Canceled   Status = "canceled"
	Rejected   Status = "rejected"
)

// transitions holds the legal changes of status. A status that has none is final.
var transitions = map[Status][]Status{
	"":         {Proposed},
	Proposed:   {Classified, Canceled},
	Classified: {Gated, Executing, Rejected, Canceled},
	Gated:      {Executing, Rejected, Canceled},
	Executing:  {Waiting, Succeeded, Failed, Canceled},
	Waiting:    {Executing, Succeeded, Failed, Canceled},
}

// CanBecome reports whether an intent may change from s to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(transitions[s], next) }

// Ended reports whether s is final.
func (s Status) Ended() bool { return s != "" && len(transitions[s]) == 0 }

// Plan is the work that is done if the intent is carried out.
type Plan struct {
	Version int             `json:"version"`
	Flow    string          `json:"flow"`
	FlowSum string          `json:"flow_sha256"`
	Input   json.RawMessage `json:"input"`
	Repo    string          `json:"repo,omitempty"`
	Base    string          `json:"base,omitempty"` // the commit of the repository that the run begins with
	Actions []string        `json:"actions,omitempty"`
	Keep    bool            `json:"keep,omitempty"`
	// AgentEnv names variables that agents of the run get, Routes the providers that they reach through the host.
	AgentEnv []string `json:"agent_env,omitempty"`
	Routes   []string `json:"routes,omitempty"`
}

// Digest returns the digest of the plan, which approvals bind.
func (p Plan) Digest() string {
	raw, err := json.Marshal(p)
	if err != nil {
		return "" // RawMessage was parsed before
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// FactType is the type of a fact.
type FactType string

const (
	FactProposed   FactType = "proposed"
	FactClassified FactType = "classified"
	FactPlanned    FactType = "planned" // a new version of the plan
	FactGated      FactType = "gated"   // the verdict of the policy
	FactApproved   FactType = "approved"
	FactRefused    FactType = "refused" // a person who may not approve it tried to
	FactRejected   FactType = "rejected"
	FactStarted    FactType = "started" // the run, before it exists
	FactWaiting    FactType = "waiting"
	FactResumed    FactType = "resumed"
	FactEnded      FactType = "ended"
	FactCanceled   FactType = "canceled"
)

// Fact is something that happened to an intent.
type Fact struct {
	Type FactType `json:"fact"`
	// Of FactProposed:
	ID      string `json:"intent_id,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Subject string `json:"subject,omitempty"`
	Signal  string `json:"signal,omitempty"` // cli, api, schedule
	Urgent  bool   `json:"urgent,omitempty"` // the settings of a schedule say that it cannot wait for a person
	// Of FactPlanned:
	Plan *Plan `json:"plan,omitempty"`
	// Of FactClassified and FactGated: class, decision and the rule that decided.
	Class    string          `json:"class,omitempty"`
	Decision lattice.Verdict `json:"decision,omitempty"`
	Rule     string          `json:"rule,omitempty"`
	// Of approvals: the digest of the plan that the person saw.
	Digest string `json:"plan_sha256,omitempty"`
	Reason string `json:"reason,omitempty"`
	Run    string `json:"run_id,omitempty"`
	Status Status `json:"status,omitempty"` // of FactEnded
}

// Approval is a person's approval of a version of the plan.
type Approval struct {
	Who    audit.Who `json:"who"`
	At     time.Time `json:"at"`
	Digest string    `json:"plan_sha256"`
}

// State is an intent as its facts tell it.
type State struct {
	ID         string     `json:"intent_id"`
	Kind       string     `json:"kind"`
	Subject    string     `json:"subject,omitempty"`
	ProposedBy *audit.Who `json:"proposed_by,omitempty"`
	Signal     string     `json:"signal,omitempty"`
	Urgent     bool       `json:"urgent,omitempty"`
	Status     Status     `json:"status"`
	Class      string     `json:"class,omitempty"`
	// Decision is the verdict of the policy, Rule the rule that decided.
	Decision  lattice.Verdict `json:"decision,omitempty"`
	Rule      string          `json:"rule,omitempty"`
	Reason    string          `json:"reason,omitempty"` // of a rejection or failure
	Plan      Plan            `json:"plan"`
	Digest    string          `json:"plan_sha256,omitempty"`
	Approvals []Approval      `json:"approvals,omitempty"` // of the present version of the plan
	Run       string          `json:"run_id,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	// Last is the number of the last entry about the intent.
	Last uint64 `json:"-"`
}

// ErrTransition says that a fact does not fit the state of an intent.
var ErrTransition = errors.New("the intent cannot change like that")

// Apply returns the state after a fact. The entry says when it happened and who caused it.
func Apply(s State, e audit.Entry, f Fact) (State, error) {
	next := s.Status
	switch f.Type {
	case FactProposed:
		next = Proposed
		s.ID, s.Kind, s.Subject, s.Signal, s.Urgent, s.ProposedBy, s.CreatedAt = f.ID, f.Kind, f.Subject, f.Signal, f.Urgent, e.Who, e.At
	case FactClassified:
		next, s.Class = Classified, f.Class
	case FactPlanned:
		if s.Status != Classified && s.Status != Gated || f.Plan == nil || f.Plan.Version != s.Plan.Version+1 {
			return s, fmt.Errorf("%w: it is %s, with version %d of its plan", ErrTransition, s.Status, s.Plan.Version)
		}
		s.Plan, s.Digest, s.Approvals = *f.Plan, f.Plan.Digest(), nil
		if s.Decision == lattice.Allow { // it was about the former version
			s.Decision, s.Rule, s.Reason = "", "", ""
		}
	case FactGated:
		s.Decision, s.Rule, s.Reason = f.Decision, f.Rule, f.Reason
		switch f.Decision {
		case lattice.Deny:
			next = Rejected
		case lattice.Ask:
			next = Gated
		}
	case FactApproved:
		if s.Status != Gated || e.Who == nil || f.Digest != s.Digest {
			return s, fmt.Errorf("%w: it is %s, and its plan has the digest %.12s", ErrTransition, s.Status, s.Digest)
		}
		s.Approvals = append(slices.Clip(s.Approvals), Approval{Who: *e.Who, At: e.At, Digest: f.Digest})
	case FactRefused:
	case FactRejected:
		next, s.Reason = Rejected, f.Reason
	case FactStarted:
		if f.Digest != s.Digest || s.Plan.Version == 0 {
			return s, fmt.Errorf("%w: its plan has the digest %.12s", ErrTransition, s.Digest)
		}
		if s.Decision != lattice.Allow && len(s.Approvals) == 0 {
			return s, fmt.Errorf("%w: its plan is not approved", ErrTransition)
		}
		next, s.Run = Executing, f.Run
	case FactWaiting:
		next = Waiting
	case FactResumed:
		next = Executing
	case FactEnded:
		next, s.Reason = f.Status, f.Reason
	case FactCanceled:
		next, s.Reason = Canceled, f.Reason
	default:
		return s, fmt.Errorf("%w: unknown fact %q", ErrTransition, f.Type)
	}
	if next != s.Status && !s.Status.CanBecome(next) {
		return s, fmt.Errorf("%w: it is %s, not to become %s", ErrTransition, s.Status, next)
	}
	s.Status, s.UpdatedAt, s.Last = next, e.At, e.Seq
	return s, nil
}

// Fold returns the state after all entries of one intent.
func Fold(entries []audit.Entry) (s State, err error) {
	for _, e := range entries {
		var f Fact
		if err := json.Unmarshal(e.Body, &f); err != nil {
			return s, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		if s, err = Apply(s, e, f); err != nil {
			return s, fmt.Errorf("audit entry %d: %w", e.Seq, err)
		}
	}
	return s, nil
}

// ID returns the id of the intent that a key creates.
func ID(key string) string { return "int_" + lattice.DerivedKey("intent", key)[:16] }
