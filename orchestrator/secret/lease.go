package secret

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Terms say which calls a lease hands a secret to.
type Terms struct {
	Run      string    `json:"run"`
	Sprite   string    `json:"sprite"`
	Variable string    `json:"variable"` // in the environment of the calls
	Skills   []string  `json:"skills"`
	Scope    string    `json:"scope,omitempty"` // of the secret, as its provider understands it
	Purpose  string    `json:"purpose"`
	Expires  time.Time `json:"expires_at"`
	Uses     int       `json:"uses"` // calls at most
}

// Lease is the permission to hand a secret to calls of one run. It is the fold of its facts, and never holds the value.
type Lease struct {
	ID   string `json:"lease"`
	Name string `json:"name"`
	Terms
	Calls []string  `json:"calls,omitempty"` // calls that the secret was handed to
	Ended time.Time `json:"ended_at,omitzero"`
	Why   string    `json:"why_ended,omitempty"`
}

// FactKind is an event in the life of a secret.
type FactKind string

const (
	Leased   FactKind = "leased"
	Used     FactKind = "used"     // handed to a call
	Withheld FactKind = "withheld" // a call wanted it, and the lease had ended
	Revoked  FactKind = "revoked"
	Tested   FactKind = "tested" // read from its provider, for a person who asked whether that works
	Failed   FactKind = "failed" // its provider did not hand it out
)

// Fact is an entry of the audit log about a secret.
type Fact struct {
	Kind   FactKind `json:"kind"`
	Name   string   `json:"name"`
	Lease  string   `json:"lease,omitempty"`
	Terms  *Terms   `json:"terms,omitempty"` // Leased
	Call   string   `json:"call,omitempty"`
	Skill  string   `json:"skill,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// Check returns an error if f is not a fact that an audit log can have.
func (f Fact) Check() error {
	switch {
	case !slices.Contains([]FactKind{Leased, Used, Withheld, Revoked, Tested, Failed}, f.Kind):
		return fmt.Errorf("%.40q is not a kind of fact about a secret", f.Kind)
	case f.Name == "":
		return errors.New("a fact about a secret names none")
	case f.Kind == Leased && (f.Terms == nil || f.Lease == ""):
		return errors.New("a lease has no terms")
	}
	return nil
}

// Apply returns the leases after a fact.
func Apply(leases []Lease, at time.Time, f Fact) []Lease {
	i := slices.IndexFunc(leases, func(l Lease) bool { return l.ID == f.Lease })
	switch {
	case f.Kind == Leased && i < 0 && f.Terms != nil:
		return append(leases, Lease{ID: f.Lease, Name: f.Name, Terms: *f.Terms})
	case i < 0:
	case f.Kind == Used && !slices.Contains(leases[i].Calls, f.Call):
		leases[i].Calls = append(slices.Clip(leases[i].Calls), f.Call)
	case f.Kind == Revoked && leases[i].Ended.IsZero():
		leases[i].Ended, leases[i].Why = at, f.Reason
	}
	return leases
}

// Refuse returns the reason why a call does not get the secret, "" if it does. The same call again is no further use.
func (l Lease) Refuse(now time.Time, call, skill, sprite string) string {
	switch {
	case l.Sprite != sprite:
		return "it is for the sprite " + l.Sprite
	case !slices.Contains(l.Skills, skill):
		return fmt.Sprintf("it is for %q", l.Skills)
	}
	if state := l.State(now); state != "active" && (state != "used up" || !slices.Contains(l.Calls, call)) {
		return "it is " + state
	}
	return ""
}

// State describes a lease at an instant: active, expired, used up or revoked.
func (l Lease) State(now time.Time) string {
	switch {
	case !l.Ended.IsZero():
		return "revoked: " + l.Why
	case !now.Before(l.Expires):
		return "expired"
	case len(l.Calls) >= l.Uses:
		return "used up"
	}
	return "active"
}
