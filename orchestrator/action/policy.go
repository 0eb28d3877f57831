package action

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Class is the risk class of an action (DESIGN 21).
type Class string

const (
	Safe       Class = "safe"       // reads or informs; never asks
	Controlled Class = "controlled" // changes one thing outside
	Dangerous  Class = "dangerous"  // hands out authority or touches infrastructure; asks every time
)

// Classify returns the class of an action. Unknown actions are controlled.
func Classify(name string) Class {
	switch name {
	case protocol.ActionNotifyUser:
		return Safe
	case protocol.ActionFetchCredential:
		return Dangerous
	}
	return Controlled
}

// neededPermission returns the permission that a call needs for an action, "" if the action is unknown.
func neededPermission(name string) string {
	switch name {
	case protocol.ActionPushBranch: // request mode: git:push is for pushing from inside
		return "git:read"
	case protocol.ActionOpenPR, protocol.ActionPostComment, protocol.ActionLabelIssue:
		return "github:write"
	case protocol.ActionNotifyUser:
		return "user:notify"
	case protocol.ActionFetchCredential:
		return "credential:fetch"
	}
	return ""
}

// isGranted reports whether permissions contain p.
func isGranted(permissions []string, p string) bool {
	return slices.Contains(permissions, p) || slices.Contains(permissions, "*")
}

// Policy maps actions to verdicts. The zero Policy asks for everything that is not safe.
type Policy map[string]lattice.Verdict

// DefaultPolicy asks a person about pushes. Credentials are denied unless a rule is added.
func DefaultPolicy() Policy {
	return Policy{
		protocol.ActionPushBranch:      lattice.Ask,
		protocol.ActionFetchCredential: lattice.Deny,
	}
}

// With returns the default policy with the given rules replacing its own.
func With(rules map[string]string) Policy {
	p := DefaultPolicy()
	for name, verdict := range rules {
		p[name] = lattice.Verdict(verdict)
	}
	return p
}

// Verdict returns the rule for an action, else the default of its class. A rule cannot allow a dangerous action without a
// person; Ask is returned instead.
func (p Policy) Verdict(name string) lattice.Verdict {
	class := Classify(name)
	rule, ok := p[name]
	switch {
	case ok && rule == lattice.Allow && class == Dangerous:
		return lattice.Ask
	case ok:
		return rule
	case class == Safe:
		return lattice.Allow
	}
	return lattice.Ask
}
