// Package ladder builds prompts, validates answers of models, and decides about repairs and escalations. It is pure: equal
// arguments give equal results on every machine.
//
//	Prompt ──► (a model answers) ──► Checks.Judge ──► no problems: done
//	   ▲                                  │
//	   └──── Packet with the problems ◄── Next: retry ── escalate, upward only ── give up
//
// Start with Checks.Judge and Next. An invalid answer is never passed on: after the last attempt the node fails, with the
// answer in the failure. Attempts count all requests to one class, including the first.
package ladder

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Strategies of a retry policy.
const (
	PatchJSON  = "PATCH_JSON_FROM_ERROR" // send the packet and ask for the whole corrected object
	Regenerate = "REGENERATE"            // send the same prompt again
	None       = "NONE"                  // one attempt, whatever max_attempts is
)

// DefaultAttempts is the default number of attempts in one class.
const DefaultAttempts = 2

// CarryFresh makes an escalation start without the packet of the last failure.
const CarryFresh = "fresh"

// Rung is the escalation state of a node: the class to ask, and the attempts so far.
type Rung struct {
	Class   string   `json:"class"`
	Attempt int      `json:"attempt"`           // of this class, from 1
	Try     int      `json:"try"`               // of all classes, from 1
	Used    []string `json:"used,omitempty"`    // classes below, in order
	Packet  *Packet  `json:"packet,omitempty"`  // problems to repair; nil = a new prompt
	Limit   int      `json:"limit"`             // attempts in this class
	Steps   int      `json:"steps,omitempty"`   // escalation rules used or skipped so far
	Retried bool     `json:"retried,omitempty"` // an answer was invalid and requested again
}

// First returns the first rung of a node.
func First(n *ir.Node) Rung {
	return Rung{Class: n.ModelClass, Attempt: 1, Try: 1, Limit: maxAttempts(n.RetryPolicy)}
}

func maxAttempts(p *ir.RetryPolicy) int {
	switch {
	case p == nil:
		return DefaultAttempts
	case p.Strategy == None:
		return 1
	case p.MaxAttempts == 0:
		return DefaultAttempts
	}
	return p.MaxAttempts
}

// answered are the kinds of failure in which the model answered and may repair its answer.
var answered = []string{expr.FailParse, expr.FailSchema, expr.FailInvariant, expr.FailRefusal, expr.FailTruncated}

// atOnce are those kinds of answered that escalate without a retry if an escalation covers them, because a retry would
// fail in the same way.
var atOnce = []string{expr.FailRefusal, expr.FailTruncated}

// Next returns the rung after a failure, false if there is none. packet describes the failure.
func Next(n *ir.Node, at Rung, packet Packet) (Rung, bool) {
	kind := packet.Kind
	step, up := nextEscalation(n, at, kind)
	again := slices.Contains(answered, kind) && at.Attempt < at.Limit && (!up || !slices.Contains(atOnce, kind))
	at.Used = slices.Clone(at.Used)
	switch {
	case again:
		at.Attempt++
		at.Try++
		at.Retried = true
		at.Packet = nil
		if n.RetryPolicy == nil || n.RetryPolicy.Strategy != Regenerate {
			at.Packet = &packet
		}
		return at, true
	case up:
		rule := n.Escalation[step]
		next := Rung{
			Class: rule.ToClass, Attempt: 1, Try: at.Try + 1, Used: append(at.Used, at.Class),
			Limit: max(1, rule.MaxAttempts), Steps: step + 1, Retried: at.Retried,
		}
		if rule.Carry != CarryFresh && slices.Contains(answered, kind) {
			packet.Attempt, packet.MaxAttempts = 1, next.Limit
			next.Packet = &packet
		}
		return next, true
	}
	return at, false
}

// nextEscalation finds the next rule that covers kind and leads to a class that was not asked yet.
func nextEscalation(n *ir.Node, at Rung, kind string) (int, bool) {
	for i := at.Steps; i < len(n.Escalation); i++ {
		rule := n.Escalation[i]
		covers := slices.Contains(rule.On, kind) || slices.Contains(rule.On, "ALL") && kind != expr.FailLimit && kind != expr.FailCancelled
		if covers && rule.ToClass != at.Class && !slices.Contains(at.Used, rule.ToClass) {
			return i, true
		}
	}
	return 0, false
}
